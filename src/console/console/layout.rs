//! The frame of every page of the console, and its files.

use std::sync::LazyLock;

use askama::Template;
use axum::response::Response;
use evenkeel_domain::text::printable;
use evenkeel_pages::{Area, Asset, Frame, HeadLink, Markup};
use http::StatusCode;

use crate::address::address_of;
use crate::session::Reader;

/// Where the files of the console are served.
const ASSETS: &str = "/console/assets/";

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "/console/assets/console",
        "css",
        "text/css; charset=utf-8",
        include_bytes!("assets/console.css"),
    )
});

static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_bytes!("assets/console.js");
    Asset::new("/console/assets/console", "js", "text/javascript; charset=utf-8", content)
});

static MORPH: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_bytes!("assets/idiomorph.min.js");
    Asset::new("/console/assets/idiomorph", "js", "text/javascript; charset=utf-8", content)
});

/// Returns a name without its organization, if that is the one of the page.
pub(crate) fn bare_name<'n>(org: &str, name: &'n str) -> &'n str {
    name.strip_prefix(org).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name)
}

/// A page of an organization, as the column of links marks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Now,
    Nodes,
    Groups,
    Policies,
    Rollouts,
    Events,
    History,
    Approvals,
    Health,
    Audit,
    Users,
    Settings,
}

/// The organization and the tab of a page.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) org: &'a str,
    pub(crate) tab: Tab,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Now, "now", "Now"),
        (Self::Nodes, "nodes", "Nodes"),
        (Self::Groups, "groups", "HA groups"),
        (Self::Policies, "policies", "Deployment policies"),
        (Self::Rollouts, "rollouts", "Rollouts"),
        (Self::Events, "events", "Events"),
        (Self::History, "history", "History"),
        (Self::Approvals, "approvals", "Approvals"),
        (Self::Health, "health", "Health"),
        (Self::Audit, "audit", "Audit"),
        (Self::Users, "users", "Users"),
        (Self::Settings, "settings", "Settings"),
    ];
}

#[derive(Template)]
#[template(path = "column.html")]
struct Column<'a> {
    org: &'a str,
    base: String,
    tabs: Vec<(&'static str, &'static str, bool)>,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct Tools<'a> {
    name: &'a str,
}

#[derive(Template)]
#[template(path = "live.html")]
struct Live<'a> {
    stream: &'a str,
    body: &'a Markup,
}

/// Shows a page of an organization.
///
/// # Shape
/// The page renews itself when something has happened in the organization.
pub(crate) fn show(reader: &Reader, org: &str, tab: Tab, title: &str, body: &impl Template) -> Response {
    let stream = address_of(org, &["live"]);
    let main = markup(&Live { stream: &stream, body: &markup(body) });
    framed(StatusCode::OK, title, Some(&reader.session.name()), &column(org, tab), &main)
}

/// Shows a page of an organization that stays as it is until it is loaded again.
pub(crate) fn show_still(
    reader: &Reader,
    Place { org, tab }: Place<'_>,
    status: StatusCode,
    title: &str,
    body: &impl Template,
) -> Response {
    framed(status, title, Some(&reader.session.name()), &column(org, tab), &markup(body))
}

fn column(org: &str, tab: Tab) -> Markup {
    let base = address_of(org, &[]);
    let tabs = Tab::ALL.into_iter().map(|(one, path, text)| (path, text, one == tab)).collect();
    markup(&Column { org, base, tabs })
}

/// Shows a page of a reader outside of an organization.
pub(crate) fn show_alone(reader: &Reader, title: &str, body: &impl Template) -> Response {
    let none = Markup::default();
    framed(StatusCode::OK, title, Some(&reader.session.name()), &none, &markup(body))
}

/// Shows a page to somebody who has not logged in.
pub(crate) fn bare(status: StatusCode, title: &str, body: &impl Template) -> Response {
    framed(status, title, None, &Markup::default(), &markup(body))
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'a> {
    title: &'a str,
    text: &'a str,
}

/// Shows why a page cannot be shown.
pub(crate) fn failure(status: StatusCode, title: &str, text: &str) -> Response {
    bare(status, title, &FailurePage { title, text })
}

fn markup(template: &impl Template) -> Markup {
    Markup::render(template).expect("the templates call no fallible filter")
}

fn framed(status: StatusCode, title: &str, user: Option<&str>, aside: &Markup, main: &Markup) -> Response {
    let tools = user.map(|name| markup(&Tools { name })).unwrap_or_default();
    let head_links = [HeadLink { rel: "stylesheet", href: STYLE.href() }];
    let frame = Frame {
        title,
        area: Area::Console,
        head_links: &head_links,
        scripts: &[MORPH.href(), SCRIPT.href()],
        tools: &tools,
        aside,
        main,
        outline: &Markup::default(),
    };
    // Names that somebody else chose must not control the terminal into which a reader copies them, nor turn the text around them.
    evenkeel_pages::page(status, printable(&frame.html())).map(axum::body::Body::from)
}

/// Returns the file with this name below [`ASSETS`].
pub(crate) fn find_asset(name: &str) -> Option<&'static Asset> {
    let assets: [&'static Asset; 3] = [&STYLE, &SCRIPT, &MORPH];
    assets.into_iter().find(|asset| asset.href().strip_prefix(ASSETS) == Some(name))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn organization_of_the_page_is_left_out_of_names() {
        assert_eq!(bare_name("o", "o/n"), "n");
        assert_eq!(bare_name("o", "other/n"), "other/n");
        assert_eq!(bare_name("o", "oo/n"), "oo/n");
    }

    #[test]
    fn files_are_found_by_their_whole_names_only() {
        let name = STYLE.href().strip_prefix(ASSETS).expect("an address of a file");
        assert_eq!(find_asset(name).map(Asset::href), Some(STYLE.href()));
        assert!(find_asset("console.css").is_none());
    }

    #[test]
    fn files_of_other_projects_are_the_recorded_ones() {
        let record = include_str!("assets/vendored.toml");
        let recorded = |name: &str| {
            let (_, entry) = record.split_once(&format!("name = \"{name}\"")).expect("an entry");
            let (_, hash) = entry.split_once("sha256 = \"").expect("a hash");
            hash[..64].to_owned()
        };
        let content = include_bytes!("assets/idiomorph.min.js");
        let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(recorded("idiomorph.min.js"), hash);
    }
}
