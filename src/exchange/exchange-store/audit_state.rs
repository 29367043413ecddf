//! Hashes of the state of resources, for the audit records of writes: one row per kind of resource.
//!
//! A hash is the SHA-256 of the rows as JSON; null when there are none. Secrets and heartbeats are left out. Each kind lists its
//! columns, so that a column that is added later changes no hash. Changing a list makes the hashes before and after that differ for
//! the same state.
//!
//! Source: docs/adr/0012-audit-records-are-sealed-afterwards.md.

use sqlx::PgConnection;

use super::audit::NewAuditRecord;
use super::change::{Change, Columns};
use super::document_revision::NewRevision;
use evenkeel_store::{StoreError, to_sql};

use self::statement::{get, has_document, insert, insert_revised};

/// The resource of a write, for the hashes of its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedResource {
    /// Its kind.
    pub kind: Subject,
    /// Organization of the resource.
    pub org: String,
    /// Its bare id.
    pub id: String,
    /// The part; empty for all parts of the kind.
    pub part: String,
}

/// The state of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Its hash; none when the resource does not exist.
    pub hash: Option<Vec<u8>>,
    /// The body of a write that would store it, as JSON; none when it does not exist, or is of a kind [without revisions](Subject::has_revisions).
    pub document: Option<String>,
}

/// A row that a write locks before it reads the state of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Organization,
    Account,
    Node,
    HaGroup,
    /// Locked only for all parts: writes of single agreements must not wait for each other.
    Agbot,
    Service,
    Pattern,
}

/// Defines the kinds. `parent` is locked before the rows are read, or else `lock` locks the rows themselves.
macro_rules! kinds {
    ($($(#[$doc:meta])* $subject:ident {
        name: $name:literal, parent: $parent:expr, lock: $lock:literal, order: $order:literal, rows: $rows:literal,
        $(document: $document:literal, audience: $audience:literal,)?
    })+) => {
        /// Subject of the resource that a write is about: the rows whose state is hashed into its record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Subject {
            $($(#[$doc])* $subject,)+
        }

        impl Subject {
            /// All kinds.
            pub const ALL: &[Subject] = &[$(Subject::$subject),+];

            /// Returns its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Subject::$subject => $name,)+
                }
            }

            /// Returns true if persons write it as a whole: its revisions are kept.
            #[must_use]
            pub fn has_revisions(self) -> bool {
                match self {
                    $(Subject::$subject => has_document!($($document)?),)+
                }
            }

            fn parent(self) -> Option<Parent> {
                match self {
                    $(Subject::$subject => $parent,)+
                }
            }
        }

        /// Returns a resource's state; locks its rows when no parent is locked for them.
        async fn get(tx: &mut PgConnection, resource: &AuditedResource) -> Result<State, StoreError> {
            let AuditedResource { kind, org, id, part } = resource;
            match kind {
                $(Subject::$subject => get!(tx, (org, id, part), $name, $order, $rows, $lock $(, $document)?),)+
            }
        }

        /// Inserts the record of a write, with the hash of the resulting state of `resource`, and its changes into the outbox, like
        /// [`super::change::insert_outbox_flushed_by_sequencing`]. Must be the last statement of the transaction. Without changes
        /// the commit itself waits for the disk.
        ///
        /// # Errors
        /// Those of the database.
        pub async fn insert_with_changes(
            tx: &mut PgConnection,
            record: &NewAuditRecord,
            resource: Option<&AuditedResource>,
            changes: &[Change],
        ) -> Result<(), StoreError> {
            match resource.map(|resource| resource.kind) {
                None => insert!(tx, record, resource, changes, "none", "SELECT audited.id WHERE false", "id"),
                $(Some(Subject::$subject) => insert!(tx, record, resource, changes, $name, $rows, $order),)+
            }
            Ok(())
        }

        /// As [`insert_with_changes`], and adds a revision of the document if the write has changed it, all in one statement. A state
        /// before the write that no revision holds gets one, too. Removes the revisions of the document that are too many, and some of the oldest of an
        /// organization that has too many bytes of them.
        ///
        /// A resource [without revisions](Subject::has_revisions) gets none.
        ///
        /// # Errors
        /// Those of the database.
        pub async fn insert_revised(
            tx: &mut PgConnection,
            record: &NewAuditRecord,
            (resource, revision): (&AuditedResource, &NewRevision<'_>),
            changes: &[Change],
        ) -> Result<(), StoreError> {
            match resource.kind {
                $(Subject::$subject => {
                    insert_revised!(tx, record, (resource, revision), changes, $name, $rows, $order $(, $document, $audience)?);
                })+
            }
            Ok(())
        }
    };
}

kinds! {
    /// An organization.
    Organization {
        name: "organization", parent: None, lock: "FOR NO KEY UPDATE", order: "org",
        rows: "SELECT org, org_type, label, description, tags, limits, heartbeat_intervals, updated_at, orchestration
            FROM organization
            WHERE org = audited.org",
        document: "(shown.orchestration::jsonb - 'lastUpdatedBy'::text)",
        audience: "''::text",
    }
    /// The versions of agent files of an organization.
    AgentFileVersion {
        name: "agent_file_version", parent: Some(Parent::Organization), lock: "", order: "org",
        rows: "SELECT org, software_versions, config_versions, cert_versions, updated_at
            FROM agent_file_version
            WHERE org = audited.org",
    }
    /// A user.
    Account {
        name: "account", parent: None, lock: "FOR NO KEY UPDATE", order: "name",
        rows: "SELECT org, name, id, email, is_admin, is_hub_admin, updated_at, updated_by
            FROM account
            WHERE org = audited.org AND name = audited.id",
    }
    /// An API key of a user, or all. Its expiry is fixed when it is created.
    ApiKey {
        name: "api_key", parent: Some(Parent::Account), lock: "", order: "key_id",
        rows: "SELECT id AS key_id, org, account, label, description, updated_at
            FROM api_key
            WHERE org = audited.org AND account = audited.id AND (audited.part = '' OR api_key.id::text = audited.part)",
    }
    /// A node without its parts.
    Node {
        name: "node", parent: None, lock: "FOR NO KEY UPDATE", order: "node",
        rows: "SELECT org, node, name, owner_org, owner, node_type, pattern, registered_services, user_input, msg_end_point,
                   software_versions, public_key, arch, heartbeat_intervals, cluster_namespace, is_namespace_scoped, updated_at
            FROM node
            WHERE org = audited.org AND node = audited.id",
    }
    /// Orchestration settings and monitor state of a node.
    NodeOrchestration {
        name: "node_orchestration", parent: None, lock: "FOR NO KEY UPDATE", order: "node",
        rows: "SELECT org, node, availability, is_drain_forced, is_frozen, is_in_upgrade, capacities, fault_domain, upgrade_domain, monitor_state, compat_version
            FROM node
            WHERE org = audited.org AND node = audited.id",
        document: "json_build_object('availability', shown.availability, 'force', shown.is_drain_forced, 'frozen', shown.is_frozen,
            'upgrade', shown.is_in_upgrade, 'capacities', COALESCE(shown.capacities, '{}'::jsonb), 'faultDomain', shown.fault_domain,
            'upgradeDomain', shown.upgrade_domain)",
        audience: "(SELECT owner_org || '/' || owner FROM node WHERE org = $1 AND node = $2)",
    }
    /// The policy of a node.
    NodePolicy {
        name: "node_policy", parent: Some(Parent::Node), lock: "", order: "node",
        rows: "SELECT org, node, label, description, properties, constraints, deployment, management, version, updated_at
            FROM node_policy
            WHERE org = audited.org AND node = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'properties', shown.properties,
            'constraints', shown.constraints, 'deployment', shown.deployment, 'management', shown.management,
            'nodePolicyVersion', shown.version)",
        audience: "(SELECT owner_org || '/' || owner FROM node WHERE org = $1 AND node = $2)",
    }
    /// The status that a node reports.
    NodeStatus {
        name: "node_status", parent: Some(Parent::Node), lock: "", order: "node",
        rows: "SELECT org, node, connectivity, services, running_services, updated_at, failures
            FROM node_status
            WHERE org = audited.org AND node = audited.id",
    }
    /// The errors that a node reports.
    NodeError {
        name: "node_error", parent: Some(Parent::Node), lock: "", order: "node",
        rows: "SELECT org, node, errors, updated_at
            FROM node_error
            WHERE org = audited.org AND node = audited.id",
    }
    /// An agreement of a node, or all.
    NodeAgreement {
        name: "node_agreement", parent: Some(Parent::Node), lock: "", order: "agreement",
        rows: "SELECT agreement, org, node, services, agreement_service, service_url, state, updated_at
            FROM node_agreement
            WHERE org = audited.org AND node = audited.id AND (audited.part = '' OR agreement = audited.part)",
    }
    /// Status that a node reports for a management policy.
    NodeManagementStatus {
        name: "node_management_status", parent: Some(Parent::Node), lock: "", order: "policy",
        rows: "SELECT org, node, policy, status, updated_at
            FROM node_management_status
            WHERE org = audited.org AND node = audited.id AND policy = audited.part",
    }
    /// A task of a node.
    NodeTask {
        name: "node_task", parent: Some(Parent::Node), lock: "", order: "task",
        rows: "SELECT org, node, task, policy, workload_unit, slot, spec_version, desired, agreement, fencing, state, seq, reported_at,
                   message, error, exit_code, updated_at
            FROM node_task
            WHERE org = audited.org AND node = audited.id AND task = audited.part",
    }
    /// An agbot without its parts.
    Agbot {
        name: "agbot", parent: None, lock: "FOR NO KEY UPDATE", order: "agbot",
        rows: "SELECT org, agbot, name, owner_org, owner, msg_end_point, public_key, updated_at
            FROM agbot
            WHERE org = audited.org AND agbot = audited.id",
    }
    /// Approval of an agbot for the rights of agbots.
    AgbotApproval {
        name: "agbot_approval", parent: None, lock: "FOR NO KEY UPDATE", order: "agbot",
        rows: "SELECT org, agbot, approved_by, approved_at
            FROM agbot
            WHERE org = audited.org AND agbot = audited.id",
    }
    /// An agreement of an agbot, or all.
    AgbotAgreement {
        name: "agbot_agreement", parent: Some(Parent::Agbot), lock: "FOR NO KEY UPDATE", order: "agreement",
        rows: "SELECT agreement, org, agbot, service, state, updated_at
            FROM agbot_agreement
            WHERE org = audited.org AND agbot = audited.id AND (audited.part = '' OR agreement = audited.part)",
    }
    /// A pattern that an agbot serves, or all.
    AgbotPattern {
        name: "agbot_pattern", parent: Some(Parent::Agbot), lock: "FOR NO KEY UPDATE", order: "entry",
        rows: "SELECT org, agbot, entry, pattern_org, pattern, node_org, updated_at
            FROM agbot_pattern
            WHERE org = audited.org AND agbot = audited.id AND (audited.part = '' OR entry = audited.part)",
    }
    /// A policy that an agbot serves, or all.
    AgbotPolicy {
        name: "agbot_policy", parent: Some(Parent::Agbot), lock: "FOR NO KEY UPDATE", order: "entry",
        rows: "SELECT org, agbot, entry, policy_org, policy, node_org, updated_at
            FROM agbot_policy
            WHERE org = audited.org AND agbot = audited.id AND (audited.part = '' OR entry = audited.part)",
    }
    /// An HA group with its members. Its row is locked first: the members are read as they are after that.
    HaGroup {
        name: "ha_group", parent: Some(Parent::HaGroup), lock: "", order: "name",
        rows: "SELECT org, name, description, is_admin, updated_at, owner_org, owner, orchestration, ARRAY(
                SELECT node FROM ha_group_member AS member
                WHERE member.org = audited.org AND member.ha_group = audited.id
                ORDER BY node
            ) AS members
            FROM ha_group
            WHERE org = audited.org AND name = audited.id",
        document: "json_build_object('description', COALESCE(shown.description, ''), 'members', to_json(shown.members), 'orchestration', shown.orchestration)",
        audience: "(SELECT CASE WHEN is_admin THEN 'administrators' ELSE '' END FROM shown)",
    }
    /// A service without its parts.
    Service {
        name: "service", parent: None, lock: "FOR NO KEY UPDATE", order: "service",
        rows: "SELECT org, service, owner_org, owner, label, description, is_public, documentation, url, version, arch, sharable,
                   match_hardware, required_services, user_input, deployment, deployment_signature, cluster_deployment,
                   cluster_deployment_signature, image_store, updated_at
            FROM service
            WHERE org = audited.org AND service = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'public', shown.is_public,
            'documentation', shown.documentation, 'url', shown.url, 'version', shown.version, 'arch', shown.arch,
            'sharable', shown.sharable, 'matchHardware', shown.match_hardware, 'requiredServices', shown.required_services,
            'userInput', shown.user_input, 'deployment', shown.deployment, 'deploymentSignature', shown.deployment_signature,
            'clusterDeployment', shown.cluster_deployment, 'clusterDeploymentSignature', shown.cluster_deployment_signature,
            'imageStore', shown.image_store)",
        audience: "(SELECT CASE WHEN is_public THEN '' ELSE owner_org || '/' || owner END FROM shown)",
    }
    /// The policy of a service.
    ServicePolicy {
        name: "service_policy", parent: Some(Parent::Service), lock: "", order: "service",
        rows: "SELECT org, service, label, description, properties, constraints, updated_at
            FROM service_policy
            WHERE org = audited.org AND service = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'properties', shown.properties,
            'constraints', shown.constraints)",
        audience: "(SELECT CASE WHEN is_public THEN '' ELSE owner_org || '/' || owner END FROM service WHERE org = $1 AND service = $2)",
    }
    /// A signing key of a service, or all.
    ServiceKey {
        name: "service_key", parent: Some(Parent::Service), lock: "", order: "key_id",
        rows: "SELECT org, service, key_id, content, updated_at
            FROM service_key
            WHERE org = audited.org AND service = audited.id AND (audited.part = '' OR key_id = audited.part)",
    }
    /// The login of a service at an image registry, or all.
    ServiceDockauth {
        name: "service_dockauth", parent: Some(Parent::Service), lock: "", order: "dockauth_id",
        rows: "SELECT dockauth_id, org, service, registry, username, updated_at
            FROM service_dockauth
            WHERE org = audited.org AND service = audited.id AND (audited.part = '' OR dockauth_id::text = audited.part)",
    }
    /// A pattern without its parts.
    Pattern {
        name: "pattern", parent: None, lock: "FOR NO KEY UPDATE", order: "pattern",
        rows: "SELECT org, pattern, owner_org, owner, label, description, is_public, services, user_input, secret_binding,
                   agreement_protocols, cluster_namespace, updated_at
            FROM pattern
            WHERE org = audited.org AND pattern = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'public', shown.is_public,
            'services', shown.services, 'userInput', shown.user_input, 'secretBinding', shown.secret_binding,
            'agreementProtocols', shown.agreement_protocols, 'clusterNamespace', shown.cluster_namespace)",
        audience: "''::text",
    }
    /// A signing key of a pattern, or all.
    PatternKey {
        name: "pattern_key", parent: Some(Parent::Pattern), lock: "", order: "key_id",
        rows: "SELECT org, pattern, key_id, content, updated_at
            FROM pattern_key
            WHERE org = audited.org AND pattern = audited.id AND (audited.part = '' OR key_id = audited.part)",
    }
    /// A deployment policy.
    DeploymentPolicy {
        name: "deployment_policy", parent: None, lock: "FOR NO KEY UPDATE", order: "policy",
        rows: "SELECT org, policy, owner_org, owner, label, description, service, user_input, secret_binding, properties, constraints,
                   created_at, updated_at, orchestration
            FROM deployment_policy
            WHERE org = audited.org AND policy = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'service', shown.service,
            'userInput', shown.user_input, 'secretBinding', shown.secret_binding, 'properties', shown.properties,
            'constraints', shown.constraints, 'orchestration', shown.orchestration)",
        audience: "''::text",
    }
    /// A management policy.
    ManagementPolicy {
        name: "management_policy", parent: None, lock: "FOR NO KEY UPDATE", order: "policy",
        rows: "SELECT org, policy, owner_org, owner, label, description, properties, constraints, patterns, is_enabled, start,
                   start_window, agent_upgrade_policy, created_at, updated_at
            FROM management_policy
            WHERE org = audited.org AND policy = audited.id",
        document: "json_build_object('label', shown.label, 'description', shown.description, 'properties', shown.properties,
            'constraints', shown.constraints, 'patterns', shown.patterns, 'enabled', shown.is_enabled, 'start', shown.start,
            'startWindow', shown.start_window, 'agentUpgradePolicy', shown.agent_upgrade_policy)",
        audience: "''::text",
    }
}

impl Subject {
    /// Returns the kind with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Subject> {
        Subject::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns a whole resource of this kind.
    #[must_use]
    pub fn of(self, org: &str, id: &str) -> AuditedResource {
        AuditedResource { kind: self, org: org.to_owned(), id: id.to_owned(), part: String::new() }
    }
}

impl From<Subject> for &'static str {
    fn from(kind: Subject) -> &'static str {
        kind.name()
    }
}

/// Returns a resource's state and locks it until the end of the transaction.
///
/// Rows of other tables than the locked one are read by a statement of their own: it sees what was committed while the lock was awaited.
///
/// # Errors
/// Those of the database.
pub async fn lock(tx: &mut PgConnection, resource: &AuditedResource) -> Result<State, StoreError> {
    match resource.kind.parent() {
        Some(Parent::Agbot) if !resource.part.is_empty() => {}
        Some(parent) => lock_parent(tx, parent, resource).await?,
        None => {}
    }
    get(tx, resource).await
}

async fn lock_parent(
    tx: &mut PgConnection,
    parent: Parent,
    resource: &AuditedResource,
) -> Result<(), StoreError> {
    let AuditedResource { org, id, .. } = resource;
    let lock = match parent {
        Parent::Organization => sqlx::query!(
            "-- audit_state.lock_organization
            SELECT FROM organization WHERE org = $1 FOR NO KEY UPDATE",
            org
        ),
        Parent::Account => sqlx::query!(
            "-- audit_state.lock_account
            SELECT FROM account WHERE org = $1 AND name = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
        Parent::Node => sqlx::query!(
            "-- audit_state.lock_node
            SELECT FROM node WHERE org = $1 AND node = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
        Parent::HaGroup => sqlx::query!(
            "-- audit_state.lock_ha_group
            SELECT FROM ha_group WHERE org = $1 AND name = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
        Parent::Agbot => sqlx::query!(
            "-- audit_state.lock_agbot
            SELECT FROM agbot WHERE org = $1 AND agbot = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
        Parent::Service => sqlx::query!(
            "-- audit_state.lock_service
            SELECT FROM service WHERE org = $1 AND service = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
        Parent::Pattern => sqlx::query!(
            "-- audit_state.lock_pattern
            SELECT FROM pattern WHERE org = $1 AND pattern = $2 FOR NO KEY UPDATE",
            org,
            id
        ),
    };
    lock.execute(tx).await?;
    Ok(())
}

mod statement;
#[cfg(test)]
mod tests;
