//! The members of a node that filters of lists read: those in the list, and the properties of its policy, as they count for deployments.

use std::collections::BTreeMap;

use evenkeel_domain::policy::{ExternalPolicy, NodePolicy, PropertyList};
use evenkeel_exchange_store::node_part::{self, PropertiesRow};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{ApiError, Exchange};

/// Properties of some nodes of an organization.
pub(super) struct NodeProperties(BTreeMap<String, PropertiesRow>);

impl NodeProperties {
    /// Reads the properties of nodes whose records the caller may read.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn read(exchange: &Exchange, org: &str, nodes: &[String]) -> Result<Self, ApiError> {
        let found = exchange
            .database()
            .read(async |connection| node_part::list_properties(connection, org, nodes).await)
            .await?;
        Ok(Self(found.into_iter().collect()))
    }

    /// Returns what filters read of a node instead of its element in the list.
    ///
    /// # Errors
    /// For an element that is no JSON.
    pub(super) fn subject(
        &mut self,
        node: &str,
        ha_group: Option<&str>,
        element: &impl Serialize,
    ) -> Result<Value, ApiError> {
        let element = serde_json::to_value(element);
        let mut subject = element.map_err(|error| ApiError::internal(error.to_string()))?;
        let mut properties = self.0.remove(node).map(effective).unwrap_or_default();
        properties.set_ha_group(ha_group);
        if let Some(members) = subject.as_object_mut() {
            members.insert("properties".to_owned(), json!(properties));
        }
        Ok(subject)
    }
}

/// The properties by which constraints of deployment policies select the node; none of a policy that cannot be read.
fn effective(row: PropertiesRow) -> PropertyList {
    let common: Option<PropertyList> = serde_json::from_str(row.properties.get()).ok();
    let deployment: Option<ExternalPolicy> = serde_json::from_str(row.deployment.get()).ok().flatten();
    let stored = NodePolicy {
        names_common_properties: common.is_some(),
        common: ExternalPolicy { properties: common.unwrap_or_default(), ..ExternalPolicy::default() },
        deployment: deployment.unwrap_or_default(),
        ..NodePolicy::default()
    };
    let policy = NodePolicy::from_stored(stored, &row.version);
    policy.map(|policy| policy.deployment_policy().properties).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn row(properties: &str, deployment: &str, version: &str) -> PropertiesRow {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        PropertiesRow {
            properties: raw(properties),
            deployment: raw(deployment),
            version: version.to_owned(),
        }
    }

    #[test]
    fn properties_are_those_that_count_for_deployments() {
        let common = r#"[{"name":"site","value":"north"},{"name":"role","value":"none"}]"#;
        let part = r#"{"properties":[{"name":"role","value":"camera"}]}"#;
        let of = |row: PropertiesRow, name: &str| effective(row).get(name).map(|one| one.value.clone());
        assert_eq!(of(row(common, part, "v2"), "role"), Some(json!("camera")));
        assert_eq!(of(row(common, part, "v2"), "site"), Some(json!("north")));
        assert_eq!(of(row(common, "null", ""), "site"), Some(json!("north")));
        assert_eq!(of(row(common, "null", "v9"), "site"), None);
    }

    #[test]
    fn membership_comes_from_the_group_and_not_from_the_policy() {
        let claimed = row(r#"[{"name":"openhorizon.hagroup","value":"claimed"}]"#, "null", "v2");
        let mut nodes = NodeProperties(BTreeMap::from([("n".to_owned(), claimed)]));
        let subject = nodes.subject("n", Some("real"), &json!({"arch": "arm"})).expect("a subject");
        assert_eq!(subject["arch"], "arm");
        assert_eq!(subject["properties"], json!([{"name": "openhorizon.hagroup", "value": "real"}]));
    }
}
