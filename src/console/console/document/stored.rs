//! Reads and writes of documents by the API, as the reader of a page.

use evenkeel_client::{ClientError, Path, RecordsPage, Resource};
use evenkeel_ids::NodeId;
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::revision::{
    Revision, RevisionQuery, RevisionResponse, RevisionsQuery, RevisionsResponse,
};
use evenkeel_wire::page::PageQuery;
use http::Method;
use serde_json::{Map, Value, json};

use super::kind::{Revisable, RevisableKind};
use crate::failure::Failure;
use crate::reads::{self, Account};
use crate::session::Reader;

/// Members that only the exchange sets.
const EXCHANGE_ONLY: [&str; 6] =
    ["owner", "created", "lastUpdated", "lastUpdatedBy", "organization", "admin"];
/// The format of a node's policy that has no version.
const NODE_POLICY_VERSION: &str = "nodePolicyVersion";

/// A document as it is stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredDocument {
    /// Without the members that only the exchange sets.
    pub(crate) document: Value,
    /// Owner of the object, `org/user`, where ownership counts.
    pub(crate) owner: Option<String>,
}

impl StoredDocument {
    fn of_record(record: RawJson) -> Self {
        let mut document = record.into_value();
        let owner = document.get("owner").and_then(Value::as_str).map(str::to_owned);
        strip(&mut document);
        Self { document, owner }
    }
}

fn strip(document: &mut Value) {
    if let Some(members) = document.as_object_mut() {
        members.retain(|name, _| !EXCHANGE_ONLY.contains(&name.as_str()));
    }
}

/// Returns a document; none when it does not exist.
pub(crate) async fn stored(reader: &Reader, document: &Revisable) -> Result<Option<StoredDocument>, Failure> {
    let Revisable { kind, org, name } = document;
    let client = &reader.client;
    let of_owner = |record: Option<RawJson>, owner: Option<String>| {
        record.map(|record| StoredDocument { owner, ..StoredDocument::of_record(record) })
    };
    Ok(match kind {
        RevisableKind::HaGroup => client.ha_group(org, name).await?.map(|group| StoredDocument {
            document: json!({
                "description": group.description, "members": group.members, "orchestration": group.orchestration,
            }),
            owner: None,
        }),
        RevisableKind::NodePolicy => {
            let node = NodeId::new(org, name);
            let Some(owner) = client.node(&node).await?.map(|record| record.owner) else { return Ok(None) };
            of_owner(client.node_policy(&node).await?, Some(owner))
        }
        RevisableKind::NodeSettings => {
            let node = NodeId::new(org, name);
            let Some(owner) = client.node(&node).await?.map(|record| record.owner) else { return Ok(None) };
            let record = client.node_orchestration_record(&node).await?;
            let spec = record.map(|record| record.into_value()["spec"].take());
            spec.filter(Value::is_object).map(|document| StoredDocument { document, owner: Some(owner) })
        }
        RevisableKind::ServicePolicy => {
            let service = client.record(Resource::Service, org, name).await?;
            let owner = service.and_then(|(_, service)| StoredDocument::of_record(service).owner);
            of_owner(client.service_policy(org, name).await?, owner)
        }
        RevisableKind::OrgSettings => of_owner(client.org_orchestration(org).await?, None),
        RevisableKind::DeploymentPolicy
        | RevisableKind::ManagementPolicy
        | RevisableKind::Service
        | RevisableKind::Pattern => match kind.resource() {
            Some(resource) => {
                let found = client.record(resource, org, name).await?;
                found.map(|(_, record)| StoredDocument::of_record(record))
            }
            None => None,
        },
    })
}

/// Returns a page of the revisions of a document, newest first.
pub(crate) async fn revisions(
    reader: &Reader,
    document: &Revisable,
    query: &RevisionsQuery,
) -> Result<RevisionsResponse, Failure> {
    match reader.client.revisions(&document.path(), query).await {
        Ok(Some(found)) => Ok(found),
        // Many nodes and services have no policy, and organizations no settings: only their writers may ask for revisions of those.
        Ok(None) if is_part_of_other(reader, document).await? => Ok(no_revisions()),
        Err(error) if error.status() == Some(403) && is_part_of_other(reader, document).await? => {
            Ok(no_revisions())
        }
        Ok(None) => Err(Failure::Missing(format!("the {} does not exist", document.title()))),
        Err(error) => Err(Failure::Api(error)),
    }
}

fn no_revisions() -> RevisionsResponse {
    RevisionsResponse { revisions: Vec::new(), next: None }
}

/// Returns whether a document belongs to an object that exists and the reader may read.
async fn is_part_of_other(reader: &Reader, document: &Revisable) -> Result<bool, Failure> {
    let Revisable { kind, org, name } = document;
    Ok(match kind {
        RevisableKind::NodePolicy | RevisableKind::NodeSettings => {
            reader.client.node(&NodeId::new(org, name)).await?.is_some()
        }
        RevisableKind::ServicePolicy => reader.client.record(Resource::Service, org, name).await?.is_some(),
        RevisableKind::OrgSettings => reader.client.org_orchestration(org).await?.is_some(),
        _ => false,
    })
}

/// Returns the newest revision of a document; none when it has none.
pub(crate) async fn newest(reader: &Reader, document: &Revisable) -> Result<Option<Revision>, Failure> {
    let query = RevisionsQuery { after: None, limit: Some(1) };
    let found = reader.client.revisions(&document.path(), &query).await?;
    Ok(found.and_then(|found| found.revisions.into_iter().next()))
}

/// Returns a revision with its document.
pub(crate) async fn revision(
    reader: &Reader,
    document: &Revisable,
    number: i64,
) -> Result<RevisionResponse, Failure> {
    let found = reader.client.revision(&document.path(), number, &RevisionQuery::default()).await?;
    found.ok_or_else(|| Failure::Missing(format!("the {} has no revision {number}", document.title())))
}

/// Returns a page of the names of documents of a kind, and `after` of the next one.
pub(crate) async fn names(
    reader: &Reader,
    org: &str,
    kind: RevisableKind,
    query: &PageQuery,
) -> Result<RecordsPage, Failure> {
    let Some(resource) = kind.resource() else { return Ok(RecordsPage::default()) };
    Ok(reader.client.records_page(resource, org, query).await?.unwrap_or_default())
}

/// Returns why the reader may not write a document; empty if it may.
pub(crate) fn objection(account: &Account, document: &Revisable, stored: Option<&StoredDocument>) -> String {
    let Revisable { kind, org, name } = document;
    // What does not exist is created by its owner.
    let own = Some(account.name.as_str());
    let owner = stored.map_or(own, |stored| stored.owner.as_deref());
    match kind {
        RevisableKind::DeploymentPolicy => account.policy_objection((org, name), owner),
        RevisableKind::ManagementPolicy | RevisableKind::OrgSettings => account.objection(org, None),
        // The owner of all its nodes may write a group, and sees only own ones.
        RevisableKind::HaGroup => {
            let sees_members = |stored: &StoredDocument| {
                stored.document["members"].as_array().is_some_and(|members| !members.is_empty())
            };
            account.objection(org, own.filter(|_| stored.is_none_or(sees_members)))
        }
        RevisableKind::Service
        | RevisableKind::ServicePolicy
        | RevisableKind::Pattern
        | RevisableKind::NodePolicy
        | RevisableKind::NodeSettings => account.objection(org, owner),
    }
}

/// Returns how long the update of a deployment policy that is in progress still takes, in words; none without one.
pub(crate) async fn time_left(reader: &Reader, document: &Revisable) -> Result<Option<String>, Failure> {
    if document.kind != RevisableKind::DeploymentPolicy {
        return Ok(None);
    }
    match reads::rollout(reader, (&document.org, &document.name)).await {
        Ok(found) => Ok(found.time_left.map(|left| left.text)),
        Err(Failure::Missing(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Writes a document, with the reason that its revision shows.
///
/// # Errors
/// When the exchange refuses it.
pub(crate) async fn write(
    reader: &Reader,
    document: &Revisable,
    wanted: &Value,
    (exists, reason): (bool, &str),
) -> Result<(), ClientError> {
    let Revisable { kind, org, name } = document;
    let client = reader.client_with_reason(reason)?;
    let body = body_of(*kind, wanted);
    match kind.resource() {
        Some(Resource::Service) if *kind == RevisableKind::Service && !exists => {
            let bytes = serde_json::to_vec(&body).unwrap_or_default();
            let path = Path::org(org, &["services"]);
            let response = client.send(Method::POST, &path, Some(bytes.into())).await?;
            if response.status.is_success() { Ok(()) } else { Err(response.unexpected()) }
        }
        Some(resource) if !exists && is_created(*kind) => {
            client.create_record(resource, org, name, &body).await.map(drop)
        }
        _ => client.put_document(&document.path(), &body).await.map(drop),
    }
}

/// Returns whether a document of a kind is created by another request than it is replaced.
fn is_created(kind: RevisableKind) -> bool {
    matches!(
        kind,
        RevisableKind::DeploymentPolicy
            | RevisableKind::ManagementPolicy
            | RevisableKind::Pattern
            | RevisableKind::HaGroup
    )
}

/// Returns the body of the write that leads to a document.
pub(super) fn body_of(kind: RevisableKind, wanted: &Value) -> Value {
    let mut body = wanted.clone();
    strip(&mut body);
    if let Some(members) = body.as_object_mut() {
        match kind {
            // A member that a group's document lacks stays as it is.
            RevisableKind::HaGroup => drop(members.entry("orchestration").or_insert(Value::Null)),
            // Both are read, and only one of them may be written.
            RevisableKind::ManagementPolicy => {
                let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
                let mut names = ["patterns", "constraints"].into_iter();
                let dropped = names.find(|name| members.get(*name).is_some_and(is_empty));
                if let Some(name) = dropped {
                    members.remove(name);
                }
            }
            RevisableKind::NodePolicy => drop(members.entry(NODE_POLICY_VERSION).or_insert(json!("v2"))),
            _ => {}
        }
    }
    body
}

/// Returns the members in which two documents differ, those that are removed with the value `null`.
pub(super) fn changed_members(stored: &Value, wanted: &Value) -> Map<String, Value> {
    let members = |document: &Value| document.as_object().cloned().unwrap_or_default();
    let (stored, wanted) = (members(stored), members(wanted));
    let removed = stored.keys().filter(|name| !wanted.contains_key(*name));
    let removed: Vec<_> = removed.map(|name| (name.clone(), Value::Null)).collect();
    let written = wanted.into_iter().filter(|(name, value)| stored.get(name) != Some(value));
    written.chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, is_admin: bool) -> Account {
        Account { name: name.to_owned(), is_admin, ..Account::default() }
    }

    #[test]
    fn writers_are_owners_and_administrators() {
        let of = |owner: &str| StoredDocument { owner: Some(owner.to_owned()), ..StoredDocument::default() };
        for (kind, may_owner) in [
            (RevisableKind::DeploymentPolicy, true),
            (RevisableKind::Service, true),
            (RevisableKind::Pattern, true),
            (RevisableKind::NodePolicy, true),
            (RevisableKind::ManagementPolicy, false),
            (RevisableKind::OrgSettings, false),
        ] {
            let document = Revisable::new(kind, "o", "x");
            let (own, foreign) = (of("o/u"), of("o/v"));
            let user = account("o/u", false);
            assert_eq!(objection(&user, &document, Some(&own)).is_empty(), may_owner, "{kind:?}");
            assert!(!objection(&user, &document, Some(&foreign)).is_empty(), "{kind:?}");
            assert_eq!(objection(&account("o/a", true), &document, Some(&foreign)), "", "{kind:?}");
            assert!(!objection(&account("p/a", true), &document, Some(&foreign)).is_empty(), "{kind:?}");
            assert_eq!(objection(&user, &document, None).is_empty(), may_owner, "{kind:?}");
        }
    }

    #[test]
    fn groups_are_written_by_those_who_see_their_nodes() {
        let group = Revisable::new(RevisableKind::HaGroup, "o", "g");
        let with = |members: Value| {
            let stored = StoredDocument { document: json!({"members": members}), owner: None };
            objection(&account("o/u", false), &group, Some(&stored))
        };
        assert_eq!(with(json!(["n"])), "");
        assert_eq!(with(json!([])), "only administrators of o may do this");
    }

    #[test]
    fn body_replaces_what_the_document_lacks() {
        let wanted = json!({"description": "d", "members": ["n"], "lastUpdated": "t"});
        let expected = json!({"description": "d", "members": ["n"], "orchestration": null});
        assert_eq!(body_of(RevisableKind::HaGroup, &wanted), expected);
        let read = json!({"label": "l", "constraints": [], "patterns": []});
        let expected = json!({"label": "l", "constraints": []});
        assert_eq!(body_of(RevisableKind::ManagementPolicy, &read), expected);
        let policy = body_of(RevisableKind::NodePolicy, &json!({"properties": []}));
        assert_eq!(policy, json!({"properties": [], "nodePolicyVersion": "v2"}));
    }

    #[test]
    fn members_that_a_document_lacks_are_removed() {
        let found = changed_members(&json!({"a": 1, "b": 2, "c": 3}), &json!({"a": 1, "b": 4}));
        assert_eq!(Value::Object(found), json!({"b": 4, "c": null}));
    }
}
