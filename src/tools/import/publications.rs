//! Published resources: services, patterns, deployment and management policies, with their keys and parts.

use super::table::Check::{
    Bytes, Flag, Id, List, Object, OptionalText, OptionalTime, Present, Text, Texts, Time, Whole,
};
use super::table::{
    Feed, NO_AGBOT_ANYWHERE, NO_NODE, NO_ORG, NO_OWNER, NO_OWNER_MESSAGE, Rule, Table, parts_of,
};

const NO_SERVICE: Rule = (
    "NOT EXISTS (SELECT FROM service AS p WHERE p.org = s.org AND p.service = s.service)",
    "its service is not there",
);

pub(super) const SERVICE: Table = Table {
    name: "services",
    source: concat!(
        "SELECT service.service, ",
        parts_of!("service.service"),
        ", owner.organization, owner.username, service.label, service.description, service.public, service.documentation,
          service.serviceurl, service.version, service.arch, service.sharable, service.matchhardware, service.requiredservices,
          service.userinput, service.deployment, service.deploymentsignature, service.clusterdeployment,
          service.clusterdeploymentsignature, service.imagestore, service.lastupdated
          FROM public.services AS service
          LEFT JOIN public.users AS owner ON owner.\"user\" = service.owner"
    ),
    target: "service",
    columns: &[
        ("org", Id),
        ("service", Id),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("label", Text),
        ("description", Text),
        ("is_public", Flag),
        ("documentation", Text),
        ("url", Text),
        ("version", Text),
        ("arch", Text),
        ("sharable", Text),
        ("match_hardware", Object),
        ("required_services", List),
        ("user_input", List),
        ("deployment", Text),
        ("deployment_signature", Text),
        ("cluster_deployment", Text),
        ("cluster_deployment_signature", Text),
        ("image_store", Object),
        ("updated_at", Time),
    ],
    key: &["org", "service"],
    rules: &[NO_ORG, NO_OWNER],
    feed: Some(Feed { category: "service", resource: "service", id: "service", is_public: "is_public" }),
    ..Table::USUAL
};

pub(super) const SERVICE_POLICY: Table = Table {
    name: "servicepolicies",
    source: concat!(
        "SELECT serviceid, ",
        parts_of!("serviceid"),
        ", label, description, properties, constraints, \"lastUpdated\" FROM public.servicepolicies"
    ),
    target: "service_policy",
    columns: &[
        ("org", Id),
        ("service", Id),
        ("label", Text),
        ("description", Text),
        ("properties", List),
        ("constraints", List),
        ("updated_at", Time),
    ],
    key: &["org", "service"],
    rules: &[NO_SERVICE],
    feed: Some(Feed::private("service", "servicepolicies", "service")),
    ..Table::USUAL
};

pub(super) const SERVICE_KEY: Table = Table {
    name: "servicekeys",
    source: concat!(
        "SELECT serviceid || ' ' || keyid, ",
        parts_of!("serviceid"),
        ", keyid, convert_to(key, 'UTF8'), lastupdated FROM public.servicekeys"
    ),
    target: "service_key",
    columns: &[("org", Id), ("service", Id), ("key_id", Id), ("content", Bytes), ("updated_at", Time)],
    key: &["org", "service", "key_id"],
    rules: &[NO_SERVICE],
    feed: Some(Feed::private("service", "servicekeys", "service")),
    ..Table::USUAL
};

pub(super) const SERVICE_DOCKAUTH: Table = Table {
    name: "servicedockauths",
    source: concat!(
        "SELECT serviceid || ' ' || dockauthid, dockauthid, ",
        parts_of!("serviceid"),
        ", registry, username, token, lastupdated FROM public.servicedockauths"
    ),
    target: "service_dockauth",
    columns: &[
        ("dockauth_id", Whole),
        ("org", Id),
        ("service", Id),
        ("registry", Text),
        ("username", Text),
        ("token", Text),
        ("updated_at", Time),
    ],
    key: &["dockauth_id"],
    rules: &[
        NO_SERVICE,
        (
            "EXISTS (SELECT FROM service_dockauth AS d
                     WHERE d.dockauth_id = s.dockauth_id AND (d.org, d.service) <> (s.org, s.service))",
            "its number belongs to another service here",
        ),
    ],
    feed: Some(Feed::private("service", "servicedockauths", "service")),
    ..Table::USUAL
};

pub(super) const PATTERN: Table = Table {
    name: "patterns",
    source: concat!(
        "SELECT pattern.pattern, ",
        parts_of!("pattern.pattern"),
        ", owner.organization, owner.username, pattern.label, pattern.description, pattern.public, pattern.services,
          pattern.userinput, pattern.secretbinding, pattern.\"agreementProtocols\", pattern.cluster_namespace, pattern.lastupdated
          FROM public.patterns AS pattern
          LEFT JOIN public.users AS owner ON owner.\"user\" = pattern.owner"
    ),
    target: "pattern",
    columns: &[
        ("org", Id),
        ("pattern", Id),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("label", Text),
        ("description", Text),
        ("is_public", Flag),
        ("services", List),
        ("user_input", List),
        ("secret_binding", List),
        ("agreement_protocols", List),
        ("cluster_namespace", Text),
        ("updated_at", Time),
    ],
    key: &["org", "pattern"],
    rules: &[NO_ORG, NO_OWNER],
    feed: Some(Feed { category: "pattern", resource: "pattern", id: "pattern", is_public: "is_public" }),
    ..Table::USUAL
};

pub(super) const PATTERN_KEY: Table = Table {
    name: "patternkeys",
    source: concat!(
        "SELECT patternid || ' ' || keyid, ",
        parts_of!("patternid"),
        ", keyid, convert_to(key, 'UTF8'), lastupdated FROM public.patternkeys"
    ),
    target: "pattern_key",
    columns: &[("org", Id), ("pattern", Id), ("key_id", Id), ("content", Bytes), ("updated_at", Time)],
    key: &["org", "pattern", "key_id"],
    rules: &[(
        "NOT EXISTS (SELECT FROM pattern AS p WHERE p.org = s.org AND p.pattern = s.pattern)",
        "its pattern is not there",
    )],
    feed: Some(Feed::private("pattern", "patternkeys", "pattern")),
    ..Table::USUAL
};

pub(super) const DEPLOYMENT_POLICY: Table = Table {
    name: "businesspolicies",
    source: concat!(
        "SELECT policy.\"businessPolicy\", ",
        parts_of!("policy.\"businessPolicy\""),
        ", owner.organization, owner.username, policy.label, policy.description, policy.service, policy.userinput,
          policy.secretbinding, policy.properties, policy.constraints, policy.created, policy.lastupdated
          FROM public.businesspolicies AS policy
          LEFT JOIN public.users AS owner ON owner.\"user\" = policy.owner"
    ),
    target: "deployment_policy",
    columns: &[
        ("org", Id),
        ("policy", Id),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("label", Text),
        ("description", Text),
        ("service", Object),
        ("user_input", List),
        ("secret_binding", List),
        ("properties", List),
        ("constraints", List),
        ("created_at", Time),
        ("updated_at", Time),
    ],
    key: &["org", "policy"],
    rules: &[NO_ORG, NO_OWNER],
    feed: Some(Feed::private("policy", "policy", "policy")),
    ..Table::USUAL
};

pub(super) const SEARCH_SESSION: Table = Table {
    name: "search_offset_policy",
    source: concat!(
        "SELECT policy || ' ' || agbot, ",
        parts_of!("policy"),
        ", ",
        parts_of!("agbot"),
        ", \"offset\", session FROM public.search_offset_policy"
    ),
    target: "search_session",
    columns: &[
        ("org", Id),
        ("policy", Id),
        ("agbot_org", Id),
        ("agbot", Id),
        ("since", OptionalTime),
        ("session", OptionalText),
    ],
    key: &["org", "policy", "agbot_org", "agbot"],
    newer_by: None,
    rules: &[
        (
            "NOT EXISTS (SELECT FROM deployment_policy AS p WHERE p.org = s.org AND p.policy = s.policy)",
            "its deployment policy is not there",
        ),
        NO_AGBOT_ANYWHERE,
    ],
    ..Table::USUAL
};

pub(super) const MANAGEMENT_POLICY: Table = Table {
    name: "managementpolicies",
    source: concat!(
        "SELECT policy.managementpolicy, ",
        parts_of!("policy.managementpolicy"),
        ", owner.organization, owner.username, policy.label, policy.description, policy.properties, policy.constraints,
          policy.patterns, policy.enabled, policy.start, policy.startwindow,
          '{\"allowDowngrade\":' || policy.allowdowngrade || ',\"manifest\":' || to_json(COALESCE(policy.manifest, '')) || '}',
          policy.created, policy.lastupdated
          FROM public.managementpolicies AS policy
          LEFT JOIN public.users AS owner ON owner.\"user\" = policy.owner"
    ),
    target: "management_policy",
    columns: &[
        ("org", Id),
        ("policy", Id),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("label", Text),
        ("description", Text),
        ("properties", List),
        ("constraints", List),
        ("patterns", List),
        ("is_enabled", Flag),
        ("start", Text),
        ("start_window", Whole),
        ("agent_upgrade_policy", Object),
        ("created_at", Time),
        ("updated_at", Time),
    ],
    key: &["org", "policy"],
    rules: &[NO_ORG, NO_OWNER],
    feed: Some(Feed::private("mgmtpolicy", "mgmtpolicy", "policy")),
    ..Table::USUAL
};

pub(super) const NODE_MANAGEMENT_STATUS: Table = Table {
    name: "management_policy_status_node",
    source: concat!(
        "SELECT node || ' ' || policy, ",
        parts_of!("node"),
        ", ",
        parts_of!("policy"),
        ", '{\"scheduledTime\":' || to_json(COALESCE(time_start_scheduled, ''))
          || ',\"startTime\":' || to_json(COALESCE(time_start_actual, ''))
          || ',\"endTime\":' || to_json(COALESCE(time_end, ''))
          || ',\"upgradedVersions\":{\"softwareVersion\":' || to_json(COALESCE(version_software, ''))
          || ',\"certVersion\":' || to_json(COALESCE(version_certificate, ''))
          || ',\"configVersion\":' || to_json(COALESCE(version_configuration, ''))
          || '},\"status\":' || to_json(COALESCE(status, ''))
          || ',\"errorMessage\":' || to_json(COALESCE(error_message, ''))
          || ',\"lastUpdated\":' || to_json(updated) || '}', updated FROM public.management_policy_status_node"
    ),
    target: "node_management_status",
    columns: &[
        ("org", Id),
        ("node", Id),
        ("staged_org", Id),
        ("policy", Id),
        ("status", Object),
        ("updated_at", Time),
    ],
    key: &["org", "node", "policy"],
    rules: &[
        NO_NODE,
        ("s.staged_org <> s.org", "its management policy belongs to another organization"),
        (
            "NOT EXISTS (SELECT FROM management_policy AS p WHERE p.org = s.org AND p.policy = s.policy)",
            "its management policy is not there",
        ),
    ],
    feed: Some(Feed::private("node", "nodemgmtpolstatus", "node")),
    ..Table::USUAL
};

pub(super) const AGENT_FILE_VERSION: Table = Table {
    name: "agent_version_*",
    source: "SELECT org.orgid, org.orgid,
            ARRAY(SELECT version FROM public.agent_version_software AS v WHERE v.organization = org.orgid ORDER BY priority NULLS LAST, version),
            ARRAY(SELECT version FROM public.agent_version_configuration AS v WHERE v.organization = org.orgid ORDER BY priority NULLS LAST, version),
            ARRAY(SELECT version FROM public.agent_version_certificate AS v WHERE v.organization = org.orgid ORDER BY priority NULLS LAST, version),
            to_char(changed.changed, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
         FROM public.orgs AS org
         JOIN public.agent_version_last_updated AS changed ON changed.organization = org.orgid",
    target: "agent_file_version",
    columns: &[
        ("org", Id),
        ("software_versions", Texts),
        ("config_versions", Texts),
        ("cert_versions", Texts),
        ("updated_at", Time),
    ],
    key: &["org"],
    rules: &[("s.org <> 'IBM'", "only the organization IBM publishes the versions that agents upgrade to")],
    feed: Some(Feed { category: "org", resource: "agentfileversion", id: "org", is_public: "true" }),
    ..Table::USUAL
};
