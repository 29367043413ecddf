//! Removes a service, and names the deployment policies that select it.

use evenkeel_client::Records;
use evenkeel_domain::policy::compatibility::service::service_id;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;

use crate::context::Exchange;
use crate::exit::Outcome;
use crate::output::print_note;
use crate::resource::kinds::{POLICIES, SERVICES};

/// Policies that are named.
const MOST_NAMED: usize = 5;

/// Removes a service after confirmation; before that the policies of the organization that select it are named.
///
/// # Errors
/// With status 8 when it does not exist.
pub async fn remove(exchange: &Exchange, service: &str, is_forced: bool) -> Outcome {
    let (org, id) = exchange.split(service);
    // A caller who may not read the policies may still remove the service.
    if let Ok(policies) = POLICIES.read(exchange, None).await
        && let Some(text) = users_text(&users(policies, &format!("{org}/{id}")))
    {
        print_note(text);
    }
    SERVICES.remove(exchange, service, is_forced).await
}

/// Returns the policies that select a service, `org/id`.
fn users(policies: Records, service: &str) -> Vec<String> {
    let selects = |policy: &DeploymentPolicyResponse| {
        let Ok(of_policy) = policy.service() else { return false };
        of_policy.service_versions.iter().any(|one| {
            let id = |arch: &str| service_id(&of_policy.org, &of_policy.name, &one.version, arch).to_string();
            match of_policy.arch.as_str() {
                "" | "*" => service.rsplit_once('_').is_some_and(|(_, arch)| id(arch) == service),
                arch => id(arch) == service,
            }
        })
    };
    let read = policies.into_iter().filter(|(_, record)| record.read().is_ok_and(|policy| selects(&policy)));
    read.map(|(name, _)| name).collect()
}

fn users_text(policies: &[String]) -> Option<String> {
    let named = policies.iter().take(MOST_NAMED).cloned().collect::<Vec<String>>().join(", ");
    let more = policies.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
    let are = if policies.len() == 1 { "deployment policy selects" } else { "deployment policies select" };
    (!policies.is_empty()).then(|| {
        format!(
            "{} {are} it: {named}{more}; running instances stay, and nothing new of it starts",
            policies.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, arch: &str, version: &str) -> (String, Value) {
        let service =
            json!({"name": "watch", "org": "o", "arch": arch, "serviceVersions": [{"version": version}]});
        (format!("o/{name}"), json!({"label": name, "service": service}))
    }

    #[test]
    fn policies_that_select_a_service_are_named() {
        let policies = [
            policy("any", "*", "1.0.0"),
            policy("same", "amd64", "1.0.0"),
            policy("other", "arm64", "1.0.0"),
            policy("newer", "*", "2.0.0"),
        ];
        let records = policies.into_iter().map(|(name, policy)| (name, policy.into())).collect();
        let found = users(records, "o/watch_1.0.0_amd64");
        assert_eq!(found, ["o/any", "o/same"]);
        let text = users_text(&found).unwrap_or_default();
        assert!(text.starts_with("2 deployment policies select it: o/any, o/same; "), "{text}");
        assert_eq!(users_text(&[]), None);
    }
}
