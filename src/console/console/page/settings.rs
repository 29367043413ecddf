//! The settings of an organization, each with where its value comes from.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::exchange::organization::OrganizationResponse;
use http::StatusCode;

use crate::administration::{self, Setting, SettingSource, Settings};
use crate::change::ChangeLink;
use crate::failure::Failure;
use crate::layout::{self, Place, Tab};
use crate::reads;
use crate::session::Reader;

struct SettingRow {
    setting: Setting,
    controls: Vec<ChangeLink>,
}

impl SettingRow {
    fn new(org: &str, setting: Setting, objection: &str) -> Self {
        let key = setting.key.as_str();
        let fields = [("key", key), ("value", setting.value.as_str())];
        let mut controls = vec![ChangeLink::new(org, "setting", "Change", &fields, objection)];
        if setting.source == SettingSource::Organization {
            let fields = [("key", key), ("value", "null"), ("step", "plan")];
            controls.push(ChangeLink::new(org, "setting", "Reset", &fields, objection));
        }
        Self { setting, controls }
    }
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Page {
    org: OrganizationResponse,
    author: String,
    objection: String,
    rows: Vec<SettingRow>,
    version: String,
}

fn page(
    org: &str,
    record: OrganizationResponse,
    settings: Settings,
    version: String,
    objection: String,
) -> Page {
    let author = settings.author().to_owned();
    let rows = settings.all.into_iter().map(|setting| SettingRow::new(org, setting, &objection));
    Page { org: record, author, rows: rows.collect(), version, objection }
}

pub(crate) async fn show(reader: Reader, Path(org): Path<String>) -> Result<Response, Failure> {
    let missing = || Failure::Missing(format!("the organization {org} does not exist"));
    let (record, settings, account, version) = tokio::try_join!(
        async { reader.client.org(&org).await?.ok_or_else(missing) },
        administration::settings(&reader, &org),
        reads::account(&reader),
        async { Ok(reader.client.exchange_version().await?) },
    )?;
    let objection = account.objection(&org, None);
    let page = page(&org, record, settings, version, objection);
    let place = Place { org: &org, tab: Tab::Settings };
    Ok(layout::show_still(&reader, place, StatusCode::OK, "Settings", &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(objection: &str) -> String {
        let hostile = format!("<img src=x>\"'\u{202e}{}", "n".repeat(1_000));
        let setting = |key: &str, source| Setting {
            key: key.to_owned(),
            value: hostile.clone(),
            source,
            default: hostile.clone(),
        };
        let settings = Settings {
            given: serde_json::json!({"lastUpdatedBy": hostile}),
            all: vec![
                setting("a", SettingSource::Organization),
                setting("b", SettingSource::Hub),
                setting(&hostile, SettingSource::Default),
            ],
        };
        let record = OrganizationResponse {
            label: hostile.clone(),
            description: hostile.clone(),
            ..OrganizationResponse::default()
        };
        page("o", record, settings, hostile.clone(), objection.to_owned()).render().expect("a page")
    }

    #[test]
    fn hostile_texts_are_escaped_and_what_the_organization_sets_can_be_reset() {
        let html = shown("");
        assert!(!html.contains("<img"), "{html}");
        assert_eq!(html.matches(">Reset</a>").count(), 1, "{html}");
        assert_eq!(html.matches(">Change</a>").count(), 3, "{html}");
    }

    #[test]
    fn readers_see_why_they_may_not_change_anything() {
        let html = shown("only administrators of o may do this");
        assert!(!html.contains("/change/"), "{html}");
        assert_eq!(
            html.matches("<p class=\"note\">only administrators of o may do this</p>").count(),
            1,
            "{html}"
        );
    }
}
