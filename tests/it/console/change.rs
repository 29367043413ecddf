//! Forms and plans of changes, as a reader without script fills them in.

use std::collections::BTreeMap;

use super::browser::{Browser, Page};

/// Returns the address to which the form of a change is sent.
pub(super) fn target(page: &Page) -> String {
    let found =
        page.addresses().into_iter().find(|address| address.contains("/change/") && page.is_form(address));
    found.unwrap_or_else(|| panic!("a form: {}", page.text))
}

/// Fills in a form, and returns the page that follows: the plan, or the form with what is wrong.
pub(super) async fn fill(browser: &mut Browser, form: &str, fields: &[(&str, &str)]) -> Page {
    let page = browser.get(form).await;
    assert_eq!(page.status, 200, "{form}: {}", page.text);
    let fields: BTreeMap<&str, &str> = fields.iter().copied().collect();
    let sent = browser.send(&target(&page), &fields).await;
    assert_eq!(sent.status, 303, "{form}: {}", sent.text);
    let page = browser.get(&sent.location.expect("the plan")).await;
    assert_eq!(page.status, 200, "{form}: {}", page.text);
    page
}

/// Confirms a plan.
pub(super) async fn confirm(browser: &mut Browser, plan: &Page, secrets: &[(&str, &str)]) -> Page {
    let token = plan.field("token");
    let mut fields: BTreeMap<&str, &str> = secrets.iter().copied().collect();
    fields.insert("token", &token);
    browser.send(&target(plan), &fields).await
}

/// Fills in a form, confirms the plan, and returns the plan.
pub(super) async fn carry_out(
    browser: &mut Browser,
    form: &str,
    fields: &[(&str, &str)],
    secrets: &[(&str, &str)],
) -> Page {
    let plan = fill(browser, form, fields).await;
    require_done(browser, &plan, secrets).await;
    plan
}

/// Confirms a plan, and requires that it is carried out.
pub(super) async fn require_done(browser: &mut Browser, plan: &Page, secrets: &[(&str, &str)]) {
    let page = confirm(browser, plan, secrets).await;
    assert_eq!(page.status, 303, "a page that is loaded again sends nothing again: {}", page.text);
    let done = browser.get(&page.location.expect("where it went")).await;
    assert!(done.status == 200 && done.text.contains("Done."), "{}", done.text);
}

/// Returns the message beside a field.
pub(super) fn mistake(page: &Page, field: &str) -> String {
    let (_, rest) = page.text.split_once(&format!("id=\"mistake-{field}\"")).unwrap_or_else(|| {
        panic!("a mistake of {field}: {}", page.text);
    });
    let (_, rest) = rest.split_once('>').expect("the begin of the message");
    assert!(page.text.contains(&format!("aria-describedby=\"mistake-{field}\"")), "{}", page.text);
    rest.split_once('<').expect("its end").0.to_owned()
}

/// Returns the links of a page that lead to changes.
pub(super) fn changes(page: &Page) -> Vec<String> {
    page.addresses().into_iter().filter(|address| address.contains("/change/")).collect()
}
