//! Revisions of a deployment policy, as the writes of a person leave them.

use evenkeel_access::right;
use evenkeel_test_database::TestDatabase;
use serde_json::json;

use super::*;
use crate::audit::NewAuditRecord;
use crate::audit_state::{AuditedResource, insert_revised, insert_with_changes, lock};
use crate::deployment_policy::{DeploymentPolicyRow, delete, insert, update};
use crate::node_spec::{NodeSpecChange, update_spec};
use crate::tests::{Org, ROLES, at, commit};

const USUAL: RevisionLimits = RevisionLimits { count: 20, document_bytes: 4_194_304, org_bytes: 268_435_456 };
/// Bytes of a revision besides those of the description of its policy, about.
const BESIDE: usize = 600;

fn resource(org: &Org, policy: &str) -> AuditedResource {
    Subject::DeploymentPolicy.of(org, policy)
}

fn document<'a>(org: &'a Org, name: &'a str) -> RevisedDocument<'a> {
    RevisedDocument { kind: Subject::DeploymentPolicy, org, name, audience: None }
}

fn record(org: &str, second: i64) -> NewAuditRecord {
    NewAuditRecord {
        org: org.to_owned(),
        recorded_at: at(second),
        caller: "o/ann".into(),
        caller_role: "user".into(),
        address: String::new(),
        request: String::new(),
        method: "PUT".into(),
        operation: "test".into(),
        resource: String::new(),
        status: 201,
        state_before: None,
    }
}

fn row(org: &str, policy: &str, description: &str) -> DeploymentPolicyRow {
    DeploymentPolicyRow {
        org: org.to_owned(),
        policy: policy.to_owned(),
        owner_org: org.to_owned(),
        owner: "u".to_owned(),
        label: "l".to_owned(),
        description: description.to_owned(),
        service: json!({"name": "s"}),
        user_input: Value::Null,
        secret_binding: Value::Null,
        properties: json!([{"name": "p", "value": null}]),
        constraints: json!(["a == b"]),
        orchestration: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

/// What a person does with a policy; without limits in force unless they are given.
struct Person<'a> {
    org: &'a Org,
    limits: RevisionLimits,
    kept_since: Timestamp,
}

impl Person<'_> {
    fn new(org: &Org) -> Person<'_> {
        Person { org, limits: USUAL, kept_since: at(-1) }
    }

    /// Writes a policy at a second; none removes it.
    async fn write(&self, policy: &str, description: Option<&str>, second: i64) {
        let mut tx = self.org.begin::<right::DeploymentPolicyWrite>().await;
        let resource = resource(self.org, policy);
        let before = lock(&mut tx, &resource).await.unwrap().document;
        match description {
            None => assert!(delete(&mut tx, self.org, policy).await.unwrap()),
            Some(text) => {
                if !update(&mut tx, &row(self.org, policy, text)).await.unwrap() {
                    add(self.org, policy, text).await;
                }
            }
        }
        let revision = NewRevision {
            before: before.as_deref(),
            reason: "because",
            limits: self.limits,
            kept_since: self.kept_since,
        };
        insert_revised(&mut tx, &record(self.org, second), (&resource, &revision), &[]).await.unwrap();
        commit(tx).await;
    }

    async fn list(&self, policy: &str) -> Vec<(i64, String)> {
        let mut connection = self.org.connection().await;
        let found = list(&mut connection, document(self.org, policy), None, 100).await.unwrap();
        found.into_iter().map(|one| (one.revision, one.operation)).collect()
    }

    async fn used(&self) -> i64 {
        let mut connection = self.org.connection().await;
        let counted = "SELECT bytes, (SELECT COALESCE(sum(bytes), 0)::bigint FROM document_revision AS one WHERE one.org = usage.org)
                       FROM document_revision_usage AS usage WHERE org = $1";
        let (counted, actual): (i64, i64) =
            sqlx::query_as(counted).bind(&**self.org).fetch_one(&mut *connection).await.unwrap();
        assert_eq!(counted, actual, "the sum is kept with the rows");
        counted
    }
}

/// Adds a policy without a revision, in a transaction of its own.
async fn add(org: &Org, policy: &str, description: &str) {
    org.write(async |tx| insert(tx, &row(org, policy, description)).await).await;
}

fn named(found: &[(i64, String)]) -> Vec<(i64, &str)> {
    found.iter().map(|(number, operation)| (*number, operation.as_str())).collect()
}

#[tokio::test]
async fn writes_that_change_a_document_are_numbered_beyond_its_removal() {
    let org = Org::new("revision-numbers").await;
    let person = Person::new(&org);
    person.write("p", Some("one"), 1).await;
    person.write("p", Some("one"), 2).await;
    person.write("p", Some("two"), 3).await;
    person.write("p", None, 4).await;
    person.write("p", Some("three"), 5).await;
    let found = person.list("p").await;
    assert_eq!(named(&found), [(4, "create"), (3, "delete"), (2, "update"), (1, "create")]);
    let mut connection = org.connection().await;
    let (about, stored) = find(&mut connection, document(&org, "p"), 2).await.unwrap().unwrap();
    assert_eq!(
        (about.author.as_str(), about.reason.as_str(), about.recorded_at),
        ("o/ann", "because", at(3))
    );
    let stored = stored.unwrap();
    assert_eq!(stored["description"], "two");
    assert_eq!(stored["properties"], json!([{"name": "p", "value": null}]));
    assert_eq!(stored.get("owner"), None, "it is the body of a write");
    assert_eq!(find(&mut connection, document(&org, "p"), 3).await.unwrap().unwrap().1, None);
    assert_eq!(find(&mut connection, document(&org, "p"), 9).await.unwrap(), None);
    let older = list(&mut connection, document(&org, "p"), Some(3), 1).await.unwrap();
    assert_eq!(older.iter().map(|one| one.revision).collect::<Vec<_>>(), [2]);
    person.used().await;
}

#[tokio::test]
async fn state_that_no_revision_holds_gets_one_before_it_is_changed() {
    let org = Org::new("revision-found").await;
    let person = Person::new(&org);
    add(&org, "p", "from before").await;
    person.write("p", Some("one"), 1).await;
    assert_eq!(named(&person.list("p").await), [(2, "update"), (1, "found")]);
    let mut tx = org.begin::<right::DeploymentPolicyWrite>().await;
    update(&mut tx, &row(&org, "p", "by an agent")).await.unwrap();
    let resource = resource(&org, "p");
    insert_with_changes(&mut tx, &record(&org, 2), Some(&resource), &[]).await.unwrap();
    commit(tx).await;
    assert_eq!(person.list("p").await.len(), 2, "only persons add revisions");
    person.write("p", Some("two"), 3).await;
    let found = person.list("p").await;
    assert_eq!(named(&found[..2]), [(4, "update"), (3, "found")]);
    let mut connection = org.connection().await;
    let (about, stored) = find(&mut connection, document(&org, "p"), 3).await.unwrap().unwrap();
    assert_eq!((about.author.as_str(), stored.unwrap()["description"].clone()), ("", json!("by an agent")));
}

#[tokio::test]
async fn revisions_of_a_document_are_bounded_by_number_bytes_and_age() {
    let org = Org::new("revision-bounds").await;
    let mut person = Person::new(&org);
    person.limits.count = 3;
    for second in 1..=6 {
        person.write("many", Some(&second.to_string()), second).await;
    }
    assert_eq!(named(&person.list("many").await), [(6, "update"), (5, "update"), (4, "update")]);
    person.limits = RevisionLimits { document_bytes: 25_000, ..USUAL };
    for second in 1..=6 {
        let text = second.to_string().repeat(10_000);
        person.write("large", Some(&text), second).await;
    }
    assert_eq!(named(&person.list("large").await), [(6, "update"), (5, "update")]);
    person.write("large", Some(&"x".repeat(30_000)), 7).await;
    assert_eq!(named(&person.list("large").await), [(7, "update")], "the newest one stays");
    person.limits = USUAL;
    person.kept_since = at(7);
    person.write("large", Some("small"), 8).await;
    person.kept_since = at(8);
    person.write("large", Some("smaller"), 9).await;
    assert_eq!(named(&person.list("large").await), [(9, "update"), (8, "update")]);
    person.used().await;
}

#[tokio::test]
async fn organization_keeps_the_newest_revisions_within_its_bytes() {
    let org = Org::new("revision-org").await;
    let mut person = Person::new(&org);
    person.limits.org_bytes = 60_000;
    for policy in ["a", "b", "c"] {
        for turn in 1..=4 {
            let text = turn.to_string().repeat(10_000);
            person.write(policy, Some(&text), turn).await;
        }
    }
    let used = usize::try_from(person.used().await).unwrap();
    assert!(used <= 60_000 + 10_000 + BESIDE, "{used}");
    for policy in ["a", "b"] {
        let found = person.list(policy).await;
        assert_eq!(found[0].0, 4, "the newest revision of {policy} stays: {found:?}");
    }
    // With less room only the newest ones of documents that exist are left.
    let mut connection = org.connection().await;
    let removed = prune_organization(&mut connection, &org, 0, 1_000).await.unwrap();
    assert!(removed > 0);
    assert_eq!(list_above(&mut connection, 0).await.unwrap().iter().filter(|one| **one == *org).count(), 1);
    for policy in ["a", "b", "c"] {
        assert_eq!(person.list(policy).await.len(), 1, "{policy}");
    }
    person.used().await;
}

#[tokio::test]
async fn forgotten_document_gets_greater_numbers_when_it_returns() {
    let database = TestDatabase::new(ROLES).await;
    let org = Org::in_database(&database, "o").await;
    let person = Person::new(&org);
    for second in 1..=3 {
        person.write("p", Some(&second.to_string()), second).await;
    }
    person.write("p", None, 4).await;
    person.write("other", Some("x"), 5).await;
    let mut connection = org.connection().await;
    assert_eq!(delete_before(&mut connection, at(4), 2).await.unwrap(), 2);
    assert_eq!(delete_before(&mut connection, at(100), 1_000).await.unwrap(), 2);
    assert_eq!(person.list("p").await, []);
    assert_eq!(named(&person.list("other").await), [(1, "create")], "it exists");
    person.write("p", Some("again"), 6).await;
    assert_eq!(named(&person.list("p").await), [(5, "create")]);
    person.used().await;
}

#[tokio::test]
async fn document_that_was_removed_with_its_owner_is_not_kept_for_ever() {
    let database = TestDatabase::new(ROLES).await;
    let org = Org::in_database(&database, "o").await;
    let person = Person::new(&org);
    person.write("p", Some("one"), 1).await;
    person.write("stays", Some("one"), 1).await;
    let mut connection = org.connection().await;
    sqlx::query("DELETE FROM deployment_policy WHERE policy = 'p'").execute(&mut *connection).await.unwrap();
    assert!(!exists(&mut connection, document(&org, "p")).await.unwrap());
    assert!(exists(&mut connection, document(&org, "stays")).await.unwrap());
    assert_eq!(release_removed(&mut connection).await.unwrap(), 1);
    assert_eq!(delete_before(&mut connection, at(100), 1_000).await.unwrap(), 1);
    assert_eq!((person.list("p").await.len(), person.list("stays").await.len()), (0, 1));
    sqlx::query("DELETE FROM organization").execute(&mut *connection).await.unwrap();
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM document_revision_usage")
        .fetch_one(&mut *connection)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn revisions_are_seen_by_their_audience() {
    let org = Org::new("revision-audience").await;
    org.add_nodes(&["n"]).await;
    let mut tx = org.begin::<right::NodeOrchestrationWrite>().await;
    let resource = Subject::NodeOrchestration.of(&org, "n");
    let before = lock(&mut tx, &resource).await.unwrap().document;
    let change = NodeSpecChange { is_frozen: Some(true), ..NodeSpecChange::default() };
    assert!(update_spec(&mut tx, &org, "n", &change, "o/ann", at(1)).await.unwrap());
    let revision = NewRevision { before: before.as_deref(), reason: "", limits: USUAL, kept_since: at(-1) };
    insert_revised(&mut tx, &record(&org, 1), (&resource, &revision), &[]).await.unwrap();
    commit(tx).await;
    let mut connection = org.connection().await;
    for (audience, seen) in [(None, 2), (Some("revision-audience/u"), 2), (Some("revision-audience/v"), 0)] {
        let of_node = RevisedDocument { kind: Subject::NodeOrchestration, org: &org, name: "n", audience };
        assert_eq!(list(&mut connection, of_node, None, 9).await.unwrap().len(), seen, "{audience:?}");
        assert_eq!(find(&mut connection, of_node, 2).await.unwrap().is_some(), seen > 0, "{audience:?}");
    }
}
