//! The environment variables of services (agreement protocol 4.5, 5.7).

use evenkeel_domain::version::{Version, VersionRange};
use serde_json::Value;

use crate::{machine::Machine, step::WorkloadName};

/// The facts about the node in the platform variables.
#[derive(Debug, Clone)]
pub struct Platform<'a> {
    /// Organization of the node.
    pub org: &'a str,
    /// Node id.
    pub node: &'a str,
    /// Pattern or empty.
    pub pattern: &'a str,
    /// Address of the exchange with `/v1`.
    pub exchange_url: &'a str,
    /// True if privileged services are allowed.
    pub allows_privileged: bool,
    /// The machine.
    pub machine: &'a Machine,
}

/// Returns the variables of a service: platform first, then user input. The deployment's own follow and take precedence. A
/// dependency belongs to no agreement.
pub fn variables(
    agreement: Option<&str>,
    inputs: &[(String, String)],
    platform: &Platform<'_>,
) -> Vec<(String, String)> {
    let machine = platform.machine;
    let own = agreement.map(|agreement| ("HZN_AGREEMENTID", agreement.to_owned()));
    let rest = [
        ("HZN_DEVICE_ID", platform.node.to_owned()),
        ("HZN_NODE_ID", platform.node.to_owned()),
        ("HZN_ORGANIZATION", platform.org.to_owned()),
        ("HZN_PATTERN", platform.pattern.to_owned()),
        ("HZN_EXCHANGE_URL", platform.exchange_url.to_owned()),
        // This node has no sync service; the variables exist, with an empty address.
        ("HZN_ESS_API_PROTOCOL", String::new()),
        ("HZN_ESS_API_ADDRESS", String::new()),
        ("HZN_ESS_API_PORT", String::new()),
        ("HZN_ESS_AUTH", "/ess-auth/auth.json".to_owned()),
        ("HZN_ESS_CERT", "/ess-cert/cert.pem".to_owned()),
        ("HZN_CPUS", machine.cpus.to_string()),
        ("HZN_RAM", machine.memory_mb.to_string()),
        ("HZN_ARCH", machine.arch.to_owned()),
        ("HZN_HARDWAREID", machine.hardware_id.clone()),
        ("HZN_PRIVILEGED", platform.allows_privileged.to_string()),
        ("HZN_HOST_IPS", machine.addresses.join(",")),
    ];
    own.into_iter()
        .chain(rest)
        .map(|(name, value)| (name.to_owned(), value))
        .chain(inputs.iter().cloned())
        .collect()
}

/// Returns the user input of a service as variables: the declared defaults, overridden by each source in turn. Undeclared
/// inputs are left out.
pub fn user_inputs(
    declared: &[Value],
    sources: &[&[Value]],
    workload: &WorkloadName,
) -> Vec<(String, String)> {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    declared
        .iter()
        .map(|declaration| text(declaration, "name"))
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let default =
                declared.iter().find(|one| one["name"] == name.as_str()).map(|one| &one["defaultValue"]);
            let given = sources
                .iter()
                .flat_map(|source| source.iter())
                .filter(|entry| applies(entry, workload))
                .filter_map(|entry| entry["inputs"].as_array())
                .flatten()
                .filter(|input| input["name"] == name.as_str())
                .map(|input| &input["value"])
                .next_back();
            let value = given.or(default).filter(|value| !value.is_null())?;
            Some((name, written(value)))
        })
        .collect()
}

fn applies(entry: &Value, workload: &WorkloadName) -> bool {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let arch = text("serviceArch");
    let range = text("serviceVersionRange");
    let in_range = || match (VersionRange::parse(range), Version::parse(&workload.version)) {
        (Ok(range), Ok(version)) => range.contains(&version),
        _ => false,
    };
    text("serviceOrgid") == workload.org
        && text("serviceUrl") == workload.url
        && (arch.is_empty() || arch == "*" || arch == workload.arch)
        && (range.is_empty() || in_range())
}

/// Formats a value as a variable: integers plain, other numbers with six decimals, lists joined by blanks.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() != 0.0 => format!("{float:.6}"),
            Some(float) if number.is_f64() => format!("{float:.0}"),
            _ => number.to_string(),
        },
        Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_sources_override_variable_by_variable() {
        let workload = WorkloadName {
            url: "web".to_owned(),
            org: "acme".to_owned(),
            version: "1.2.0".to_owned(),
            arch: "amd64".to_owned(),
        };
        let declared = [
            json!({"name": "RATE", "type": "int", "defaultValue": "10"}),
            json!({"name": "HOSTS", "type": "list of strings"}),
            json!({"name": "MODE", "type": "string", "defaultValue": "x"}),
            json!({"name": "NONE", "type": "string"}),
        ];
        let policy = [
            json!({"serviceOrgid": "acme", "serviceUrl": "web", "serviceVersionRange": "[1.0.0,2.0.0)",
            "inputs": [{"name": "RATE", "value": 25}, {"name": "HOSTS", "value": ["a", "b"]}, {"name": "X", "value": 1}]}),
        ];
        let node = [
            json!({"serviceOrgid": "acme", "serviceUrl": "web", "inputs": [{"name": "RATE", "value": 2.5}]}),
            json!({"serviceOrgid": "acme", "serviceUrl": "web", "serviceArch": "arm", "inputs": [{"name": "MODE", "value": "no"}]}),
        ];
        let inputs = user_inputs(&declared, &[&policy, &node], &workload);
        let expected = [("RATE", "2.500000"), ("HOSTS", "a b"), ("MODE", "x")];
        assert_eq!(inputs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
