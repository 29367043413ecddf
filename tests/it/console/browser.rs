//! A browser without script: it follows links, sends forms and keeps the cookie.

use std::collections::BTreeMap;

use reqwest::{Method, header, redirect};

use crate::support::Hub;
use crate::support::wait::must;

/// A page as it arrived.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    /// Where the page leads by itself.
    pub(super) refresh: Option<String>,
    /// The headers that set cookies.
    pub(super) set_cookies: Vec<String>,
    pub(super) text: String,
}

impl Page {
    /// Returns the values of an attribute.
    fn attributes(&self, name: &str) -> Vec<String> {
        let begin = format!(" {name}=\"");
        let parts = self.text.split(&begin).skip(1);
        parts.filter_map(|rest| Some(unescaped(rest.split_once('"')?.0))).collect()
    }

    /// Returns the addresses that its links, forms and files name.
    pub(super) fn addresses(&self) -> Vec<String> {
        ["href", "action", "src", "data-stream"].iter().flat_map(|name| self.attributes(name)).collect()
    }

    /// Returns whether a form is sent to an address.
    pub(super) fn is_form(&self, address: &str) -> bool {
        self.attributes("action").iter().any(|action| action == address)
    }

    /// Returns the value of a field.
    pub(super) fn field(&self, name: &str) -> String {
        let (_, rest) = self.text.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| {
            panic!("a field {name}: {}", self.text);
        });
        unescaped(rest.split_once('"').expect("the end of the value").0)
    }

    /// Returns the text of an area.
    pub(super) fn area(&self, name: &str) -> String {
        let found = self.text.split_once(&format!("<textarea name=\"{name}\"")).and_then(|(_, rest)| {
            let (_, rest) = rest.split_once(">\n")?;
            Some(rest.split_once("</textarea>")?.0)
        });
        unescaped(found.unwrap_or_else(|| panic!("an area {name}: {}", self.text)))
    }
}

fn unescaped(text: &str) -> String {
    ["&#38;", "&#34;", "&#39;", "&#60;", "&#62;"]
        .iter()
        .zip(["&", "\"", "'", "<", ">"])
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// A browser at a hub.
pub(super) struct Browser {
    client: reqwest::Client,
    pub(super) url: String,
    /// The cookie of the session, as it is sent.
    pub(super) cookie: Option<String>,
    /// The other one: of a login with the identity provider.
    pub(super) attempt: Option<String>,
}

impl Browser {
    pub(super) fn new(hub: &Hub) -> Self {
        // The server closes a connection whose request was too long.
        let builder = reqwest::Client::builder().redirect(redirect::Policy::none()).pool_max_idle_per_host(0);
        let client = builder.build();
        Self { client: must(client, "a client"), url: hub.url.clone(), cookie: None, attempt: None }
    }

    /// A browser in which a user has logged in.
    pub(super) async fn of(hub: &Hub, org: &str, user: &str, password: &str) -> Self {
        let mut browser = Self::new(hub);
        let page = browser.log_in(org, user, password).await;
        assert_eq!(page.status, 303, "{}", page.text);
        browser
    }

    pub(super) async fn log_in(&mut self, org: &str, user: &str, password: &str) -> Page {
        let form = BTreeMap::from([("org", org), ("user", user), ("secret", password), ("next", "")]);
        self.send("/console/login", &form).await
    }

    pub(super) async fn get(&mut self, path: &str) -> Page {
        self.request(Method::GET, path, None, &[]).await
    }

    /// Sends a form, as a page of this site does.
    pub(super) async fn send(&mut self, path: &str, form: &BTreeMap<&str, &str>) -> Page {
        self.request(Method::POST, path, Some(form), &[("sec-fetch-site", "same-origin")]).await
    }

    pub(super) async fn request(
        &mut self,
        method: Method,
        path: &str,
        form: Option<&BTreeMap<&str, &str>>,
        headers: &[(&str, &str)],
    ) -> Page {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        let cookies: Vec<&str> =
            [&self.cookie, &self.attempt].into_iter().flatten().map(String::as_str).collect();
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(form) = form {
            let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
            request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        }
        let response = must(request.send().await, "a page");
        let text = |value: &header::HeaderValue| value.to_str().expect("ASCII").to_owned();
        let set_cookies: Vec<String> =
            response.headers().get_all(header::SET_COOKIE).iter().map(text).collect();
        for set in &set_cookies {
            let pair = set.split(';').next().expect("a pair").to_owned();
            let kept = if pair.contains("evenkeel-login") { &mut self.attempt } else { &mut self.cookie };
            *kept = (!pair.ends_with('=')).then_some(pair);
        }
        let header = |name: &str| response.headers().get(name).map(text);
        let (location, refresh) = (header("location"), header("refresh"));
        let status = response.status().as_u16();
        Page { status, location, refresh, set_cookies, text: must(response.text().await, "its text") }
    }
}
