//! Problems that a person has to resolve: their acknowledgement, and how the first page lists them.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_wire::agbot::attention::{Acknowledgement, LONGEST_REASON, PutAcknowledgement};
use evenkeel_wire::agbot::fleet::FleetMatter;
use jiff::Timestamp;

use crate::address::address_of;
use crate::command_line::word;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout::{self, Tab, bare_name};
use crate::moment::Moment;
use crate::reads::{self, Account};
use crate::session::Reader;

/// A problem as a page shows it.
pub(crate) struct Matter {
    pub(crate) title: &'static str,
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) text: String,
    pub(crate) role: &'static str,
    pub(crate) since: Option<Moment>,
    /// Its acknowledgement, with the time.
    pub(crate) acknowledged: Option<(Acknowledgement, Moment)>,
    /// The page that acknowledges it, or withdraws that.
    pub(crate) action: String,
    /// Why the reader may do neither; empty if it may.
    pub(crate) objection: String,
}

/// Problems that one kind of account can resolve.
pub(crate) struct MatterGroup {
    pub(crate) title: String,
    pub(crate) matters: Vec<Matter>,
}

impl Matter {
    pub(crate) fn new(org: &str, matter: FleetMatter, account: &Account, now: Timestamp) -> Self {
        let name = bare_name(org, &matter.subject).to_owned();
        let of_policy = || address_of(org, &["policies", &name]);
        let (title, href) = match matter.kind.as_str() {
            "rollout-paused" => ("Rollout paused", of_policy()),
            "update-paused" => ("Update paused", of_policy()),
            "version-rolled-back" => ("Version rolled back", of_policy()),
            "rollout-blocked" => ("Rollout blocked", of_policy()),
            "instances-missing" => ("Instances missing", of_policy()),
            "policy-without-effect" => ("Document without effect", String::new()),
            "policy-questionable" => ("Document with a probable mistake", String::new()),
            _ => ("Node down", address_of(org, &["nodes", &name])),
        };
        let is_of_node = matter.kind == "node-down";
        // A user sees the own nodes only, and may acknowledge what concerns them.
        let owner = is_of_node.then_some(account.name.as_str());
        let objection = account.objection(org, owner);
        let name = match &matter.group {
            Some(group) => format!("{name} in {group}"),
            None => name,
        };
        Self {
            title,
            name,
            href,
            role: role_in_words(&matter.role),
            since: Moment::known(matter.since.as_deref(), now),
            action: address_of(org, &["attention", &matter.id]),
            acknowledged: matter.acknowledged.map(|one| {
                let at = Moment::new(&one.at, now);
                (one, at)
            }),
            text: matter.text,
            objection,
        }
    }
}

fn role_in_words(role: &str) -> &'static str {
    match role {
        "administrator" => "an administrator of the organization",
        "owner" => "the owner, or an administrator",
        _ => "the operator of the node",
    }
}

/// Returns the problems that nobody has acknowledged by the account that can resolve them, and the others.
pub(crate) fn grouped(
    org: &str,
    attention: Vec<FleetMatter>,
    account: &Account,
    now: Timestamp,
) -> (Vec<MatterGroup>, Vec<Matter>) {
    let matters = attention.into_iter().map(|matter| Matter::new(org, matter, account, now));
    let (acknowledged, open): (Vec<Matter>, Vec<Matter>) =
        matters.partition(|matter| matter.acknowledged.is_some());
    let mut groups: Vec<MatterGroup> = Vec::new();
    for matter in open {
        let title = format!("For {}", matter.role);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.matters.push(matter),
            None => groups.push(MatterGroup { title, matters: vec![matter] }),
        }
    }
    (groups, acknowledged)
}

#[derive(Template)]
#[template(path = "attention.html")]
struct Page {
    base: String,
    matter: Matter,
    command: String,
    longest: usize,
}

/// Shows a problem with the form that acknowledges it, or withdraws that.
pub(super) async fn show(
    reader: Reader,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let (overview, account) = tokio::try_join!(reads::overview(&reader, &org), reads::account(&reader))?;
    let matter = overview.attention.into_iter().find(|matter| matter.id == id);
    let gone = || Failure::Missing("the problem is resolved, or its cause has changed".to_owned());
    let matter = Matter::new(&org, matter.ok_or_else(gone)?, &account, Timestamp::now());
    let command = match matter.acknowledged {
        None => format!("hzn agbot attention acknowledge {} --because REASON", word(&id)),
        Some(_) => format!("hzn agbot attention withdraw {}", word(&id)),
    };
    let page = Page { base: address_of(&org, &[]), matter, command, longest: LONGEST_REASON };
    Ok(layout::show(&reader, &org, Tab::Now, "Acknowledge", &page))
}

/// Acknowledges a problem, or withdraws that. Its id is that of its cause as well, so that nothing else is acknowledged than what was shown.
pub(super) async fn carry_out(
    reader: Reader,
    Path((org, id)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    if form.get("withdraw").is_some() {
        let is_withdrawn = reader.client.withdraw_acknowledgement(&org, &id).await?;
        if !is_withdrawn {
            return Err(Failure::Missing(
                "the problem is resolved, or nobody has acknowledged it".to_owned(),
            ));
        }
    } else {
        let reason = form.require("reason")?.trim().to_owned();
        reader.client.acknowledge(&org, &id, &PutAcknowledgement { reason }).await?;
    }
    Ok(Redirect::to(&address_of(&org, &["now"])).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::LimitingRole;

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    fn matter(kind: &str, role: &str, is_acknowledged: bool) -> FleetMatter {
        let acknowledged = Acknowledgement {
            by: HOSTILE.into(),
            reason: HOSTILE.into(),
            at: "1970-01-01T00:00:00Z".into(),
            ..Acknowledgement::default()
        };
        FleetMatter {
            id: "id".into(),
            kind: kind.into(),
            subject: format!("o/{HOSTILE}"),
            text: HOSTILE.into(),
            role: role.into(),
            acknowledged: is_acknowledged.then_some(acknowledged),
            ..FleetMatter::default()
        }
    }

    fn account(name: &str, is_admin: bool) -> Account {
        Account { name: name.into(), is_admin, ..Account::default() }
    }

    #[test]
    fn problems_are_grouped_by_who_can_resolve_them_and_acknowledged_ones_are_apart() {
        let attention = vec![
            matter("rollout-paused", "administrator", false),
            matter("node-down", "operator", false),
            matter("rollout-blocked", "administrator", false),
            matter("update-paused", "owner", true),
        ];
        let (groups, acknowledged) = grouped("o", attention, &account("o/a", true), Timestamp::UNIX_EPOCH);
        let titles: Vec<_> = groups.iter().map(|group| (group.title.as_str(), group.matters.len())).collect();
        let admin = "For an administrator of the organization";
        assert_eq!(titles, [(admin, 2), ("For the operator of the node", 1)]);
        assert_eq!(acknowledged.len(), 1);
    }

    #[test]
    fn acknowledging_follows_the_rights_of_the_reader() {
        let objection = |kind: &str, account: &Account| {
            Matter::new("o", matter(kind, "owner", false), account, Timestamp::UNIX_EPOCH).objection
        };
        assert_eq!(objection("update-paused", &account("o/a", true)), "");
        assert_eq!(
            objection("update-paused", &account("o/u", false)),
            "only administrators of o may do this"
        );
        assert_eq!(objection("node-down", &account("o/u", false)), "");
        let role = LimitingRole { name: "viewer".into(), policies: Vec::new(), is_of_user: false };
        let viewer = Account { role: Some(role), ..account("o/v", false) };
        assert_eq!(objection("node-down", &viewer), "your role viewer changes nothing");
    }

    #[test]
    fn page_escapes_what_others_wrote() {
        for is_acknowledged in [false, true] {
            let now = Timestamp::UNIX_EPOCH;
            let shown = matter("node-down", "operator", is_acknowledged);
            let page = Page {
                base: "/console/orgs/o".into(),
                matter: Matter::new("o", shown, &account("o/a", true), now),
                command: HOSTILE.into(),
                longest: LONGEST_REASON,
            };
            let text = page.render().expect("a page");
            assert!(!text.contains("<img"), "{text}");
            assert_eq!(text.contains("name=\"withdraw\""), is_acknowledged, "{text}");
        }
    }
}
