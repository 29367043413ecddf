//! The parameters that select a page of a list: `limit`, `after`, `filter` and `count`.

use axum::extract;
use evenkeel_api::{MAX_ID, Parameters, Refusal};
use evenkeel_domain::policy::ListFilter;
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_wire::page::{DEFAULT_LIMIT, MAX_FILTER, MAX_LIMIT, PageQuery};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::ApiError;

const NAMES: [&str; 4] = ["limit", "after", "filter", "count"];

/// Longest key of an entry: an organization and an id.
const MAX_KEY: usize = 2 * MAX_ID + 1;

/// The selected page of a list; none of a list that is wanted whole.
#[derive(Debug, Default)]
pub(crate) struct Paging(pub(super) Option<SelectedPage>);

/// A page.
#[derive(Debug)]
pub(super) struct SelectedPage {
    pub limit: usize,
    pub after: Option<String>,
    pub filter: Option<ListFilter>,
    pub is_counted: bool,
}

impl Paging {
    /// Returns whether entries are filtered.
    pub(super) fn is_filtered(&self) -> bool {
        self.0.as_ref().is_some_and(|page| page.filter.is_some())
    }

    /// Returns whether a page is selected.
    pub(super) fn is_page(&self) -> bool {
        self.0.is_some()
    }
}

impl Parameters for Paging {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let pairs = extract::Query::<Vec<(String, String)>>::try_from_uri(&request.uri);
        let pairs = pairs.map_err(|error| Refusal::invalid_input(error.to_string()))?.0;
        let mut values: [Option<String>; 4] = [const { None }; 4];
        for (name, text) in pairs {
            let Some(position) = NAMES.iter().position(|known| *known == name) else { continue };
            if values[position].replace(text).is_some() {
                return Err(broken(&name, "must not be given twice"));
            }
        }
        if values.iter().all(Option::is_none) {
            return Ok(Self(None));
        }
        let [limit, after, filter, count] = values;
        Ok(Self(Some(SelectedPage {
            limit: limit.map_or(Ok(usize::from(DEFAULT_LIMIT)), |text| limit_of(&text))?,
            after: after.map(key_of).transpose()?,
            filter: filter.map(|text| filter_of(&text)).transpose()?,
            is_counted: count.map_or(Ok(false), |text| {
                text.parse().map_err(|_| broken("count", "must be true or false"))
            })?,
        })))
    }

    fn documented() -> Vec<Parameter> {
        PageQuery::into_params(|| Some(ParameterIn::Query))
    }
}

fn broken(name: &str, rule: &str) -> Refusal {
    Refusal::invalid_input(format!("{name}: {rule}"))
}

fn limit_of(text: &str) -> Result<usize, Refusal> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = text.parse::<u16>().ok().filter(|limit| is_plain && (1..=MAX_LIMIT).contains(limit));
    limit
        .map(usize::from)
        .ok_or_else(|| broken("limit", &format!("must be an integer from 1 to {MAX_LIMIT}")))
}

fn key_of(text: String) -> Result<String, Refusal> {
    if text.len() > MAX_KEY {
        return Err(broken("after", &format!("must be at most {MAX_KEY} bytes long")));
    }
    if text.is_empty() || text.contains('\0') {
        return Err(broken("after", "must not be empty, nor hold a NUL character"));
    }
    Ok(text)
}

fn filter_of(text: &str) -> Result<ListFilter, Refusal> {
    if text.len() > MAX_FILTER {
        return Err(broken("filter", &format!("must be at most {MAX_FILTER} bytes long")));
    }
    if text.trim().is_empty() {
        return Err(broken("filter", "must not be empty"));
    }
    ListFilter::parse(text).map_err(|error| broken("filter", &error.to_string()))
}

/// Where a page ends: the key of an entry, as the list shows it.
pub(super) trait Cursor: Sized {
    /// Reads a key of a list whose entries all belong to `org`, if it is one.
    ///
    /// # Errors
    /// 400 for the key of an entry of another list.
    fn of_text(text: &str, org: Option<&str>) -> Result<Self, ApiError>;
}

impl Cursor for String {
    fn of_text(text: &str, org: Option<&str>) -> Result<Self, ApiError> {
        let Some(org) = org else { return Ok(text.to_owned()) };
        match text.split_once('/') {
            None => Ok(text.to_owned()),
            Some((of, id)) if of == org => Ok(id.to_owned()),
            Some(_) => Err(of_other_list(&format!("an id of the organization {org}"))),
        }
    }
}

impl Cursor for ResourceKey {
    fn of_text(text: &str, org: Option<&str>) -> Result<Self, ApiError> {
        if let Some(org) = org {
            return Ok(Self { org: org.to_owned(), id: String::of_text(text, Some(org))? });
        }
        let (org, id) = text.split_once('/').ok_or_else(|| of_other_list("organization/id"))?;
        Ok(Self { org: org.to_owned(), id: id.to_owned() })
    }
}

fn of_other_list(expected: &str) -> ApiError {
    let rule =
        format!("belongs to another list; must be {expected}, as next of a page of this list names it");
    broken("after", &rule).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Paging, String> {
        let uri: http::Uri = format!("/v1/orgs/o/nodes?{query}").parse().expect("a URI");
        let (parts, ()) = http::Request::builder().uri(uri).body(()).expect("a request").into_parts();
        Paging::read(&parts).map_err(|refusal| refusal.message().to_owned())
    }

    #[test]
    fn without_its_parameters_no_page_is_selected() {
        assert!(!read("name=x&idsOnly=true").unwrap().is_page());
        let page = read("limit=7&after=o/n&filter=arch%20%3D%3D%20arm&count=true").unwrap().0.unwrap();
        assert_eq!((page.limit, page.after.as_deref(), page.is_counted), (7, Some("o/n"), true));
        assert!(page.filter.is_some());
        assert_eq!(read("count=false").unwrap().0.unwrap().limit, 100);
    }

    #[test]
    fn refusals_name_the_parameter_and_the_rule() {
        let long = format!("filter={}", "a".repeat(4097));
        let key = format!("after={}", "k".repeat(3000));
        for (query, name, rule) in [
            ("limit=0", "limit", "from 1 to 1000"),
            ("limit=1000000", "limit", "from 1 to 1000"),
            ("limit=%2B1", "limit", "from 1 to 1000"),
            ("limit=", "limit", "from 1 to 1000"),
            ("limit=1&limit=2", "limit", "twice"),
            ("after=", "after", "empty"),
            ("after=a%00", "after", "NUL"),
            (&key, "after", "2049 bytes"),
            ("filter=", "filter", "empty"),
            ("filter=arch%20%3D", "filter", "character"),
            (&long, "filter", "4096 bytes"),
            ("count=1", "count", "true or false"),
        ] {
            let error = read(query).expect_err(query);
            assert!(error.starts_with(&format!("{name}: ")) && error.contains(rule), "{error}");
        }
    }

    #[test]
    fn key_of_another_list_is_refused() {
        let of = |text, org| String::of_text(text, org).map_err(|error| error.to_string());
        assert_eq!(of("o/n", Some("o")), Ok("n".to_owned()));
        assert_eq!(of("n", Some("o")), Ok("n".to_owned()));
        assert!(of("p/n", Some("o")).unwrap_err().contains("another list"));
        assert_eq!(of("any/text", None), Ok("any/text".to_owned()));
        let key = |text, org| ResourceKey::of_text(text, org).map(|key| (key.org, key.id)).ok();
        assert_eq!(key("p/s", None), Some(("p".to_owned(), "s".to_owned())));
        assert_eq!(key("s", Some("o")), Some(("o".to_owned(), "s".to_owned())));
        assert_eq!(key("s", None), None);
    }
}
