//! The steps of a registration at the exchange, and the wait for a service after it (agbot 5.3).

use std::time::{Duration, Instant};

use evenkeel_client::{ClientError, Credentials};
use evenkeel_wire::agent::event_log::SurfacedError;
use evenkeel_wire::agent::service::ServiceInstance;
use evenkeel_wire::exchange::ha_group::PutHaGroup;
use evenkeel_wire::exchange::node::NodeResponse;
use serde_json::{Value, json};

use super::{agreement, service};
use crate::context::{Context, Exchange, UserOptions};
use crate::exchange::node::{NewNode, check_token, put_new_node, read_node};
use crate::exchange::node_part;
use crate::exit::{CliError, Outcome};
use crate::output::print_note;
use crate::resource::kinds::NODES;
use crate::server::Server;
use crate::settings::EXCHANGE_URL;

/// Pause between two requests to the agent.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A service counts as started after it was seen running this many times in a row.
const TIMES_SEEN: u32 = 3;

/// The exchange as node and as user.
pub struct AtExchange {
    as_node: Server,
    as_user: Option<Exchange>,
    node: Credentials,
}

impl AtExchange {
    /// Clients of the exchange as the node and, if there are credentials, as a user.
    ///
    /// # Errors
    /// With status 1 when the address or the credentials cannot be used.
    pub fn new(context: &Context, url: &str, user: &UserOptions, node: &Credentials) -> Outcome<Self> {
        let as_node = context.server(url.to_owned(), EXCHANGE_URL, Some(node.clone()))?;
        let as_user = match context.user_credentials(user, &node.org)? {
            Some(_) => Some(context.exchange_at(url.to_owned(), user, None)?),
            None => None,
        };
        Ok(Self { as_node, as_user, node: node.clone() })
    }

    fn user(&self, what: &str) -> Outcome<&Exchange> {
        self.as_user.as_ref().ok_or_else(|| {
            CliError::input(
                format!("{what} failed"),
                "the credentials of a user are needed for it",
                "give -u USER:PASSWORD or set HZN_EXCHANGE_USER_AUTH",
            )
        })
    }

    /// Ensures that the node exists with its token.
    ///
    /// # Errors
    /// With status 1 when a user is needed and none is given, 5 when the exchange refuses.
    pub async fn ensure_node(&self, name: &str, arch: &str) -> Outcome {
        match self.as_node.client.node(&self.node.node()).await {
            Ok(Some(found)) => return self.check_type(&found),
            Ok(None) => {}
            Err(error) if matches!(error.status(), Some(401 | 403)) => {}
            Err(error) => {
                return Err(self.as_node.failed(&format!("reading node {}", self.node.name()), &error));
            }
        }
        let doing = format!("creating node {}", self.node.name());
        let exchange = self.user(&doing)?;
        let id = self.node.node();
        let found = exchange.server.client.node(&id);
        if let Some(found) = exchange.server.call(&doing, found).await? {
            self.check_type(&found)?;
            let name = self.node.name();
            check_token(&name, self.node.secret())?;
            return NODES.patch(exchange, &name, &json!({"token": self.node.secret()})).await;
        }
        put_new_node(exchange, &self.node, &NewNode { name, node_type: "device", arch }).await
    }

    fn check_type(&self, node: &NodeResponse) -> Outcome {
        if node.node_type.eq_ignore_ascii_case("cluster") {
            return Err(CliError::input(
                format!("node {} was not registered", self.node.name()),
                "it is a cluster, and this agent runs devices",
                "choose another id",
            ));
        }
        Ok(())
    }

    /// Returns the pattern to register with: the given one, else that of the node, else none.
    ///
    /// # Errors
    /// With status 1 when it does not fit or has no services, 8 when it does not exist.
    pub async fn choose_pattern(&self, given: Option<&str>) -> Outcome<String> {
        let id = self.node.node();
        let node = self.as_node.client.node(&id);
        let stored = self.as_node.call("reading the node", node).await?.unwrap_or_default().pattern;
        let pattern = match given.filter(|given| !given.is_empty()) {
            None => stored,
            Some(given) => {
                let (org, id) = crate::context::split_name(given, &self.node.org);
                format!("{org}/{id}")
            }
        };
        if pattern.is_empty() {
            return Ok(pattern);
        }
        let (org, id) = crate::context::split_name(&pattern, &self.node.org);
        let doing = format!("reading pattern {pattern}");
        let found = self.as_node.call(&doing, self.as_node.client.pattern(&org, &id)).await?;
        let found =
            found.ok_or_else(|| CliError::not_found("pattern", &pattern, "hzn exchange pattern list"))?;
        if found.services.as_array().is_none_or(Vec::is_empty) {
            let what = format!("the node was not registered with pattern {pattern}");
            return Err(CliError::input(what, "the pattern has no services", "choose another pattern"));
        }
        Ok(pattern)
    }

    /// Adds the node to an HA group; creates the group if it does not exist.
    ///
    /// # Errors
    /// With status 1 when the node is in another group, 5 when the exchange refuses.
    pub async fn join_group(&self, group: &str) -> Outcome {
        let doing = format!("adding node {} to HA group {group}", self.node.name());
        let exchange = self.user(&doing)?;
        let record = read_node(exchange, &self.node.name()).await?;
        match record.ha_group.as_deref().unwrap_or_default() {
            "" => {}
            present if present == group => {
                print_note(format!("node {} is in HA group {group} already", self.node.name()));
                return Ok(());
            }
            other => {
                let why = format!("the node is in HA group {other}, and a node is in one group at most");
                return Err(CliError::input(
                    format!("{doing} failed"),
                    why,
                    "remove it from that group first",
                ));
            }
        }
        let (client, org, node) = (&exchange.server.client, &self.node.org, &self.node.id);
        if exchange.server.call(&doing, client.ha_group(org, group)).await?.is_none() {
            let body = PutHaGroup {
                description: Some(group.to_owned()),
                members: Some(vec![node.clone()]),
                ..PutHaGroup::default()
            };
            exchange.server.call(&doing, client.create_ha_group(org, group, &body)).await?;
        } else {
            exchange.server.call(&doing, client.add_to_ha_group(org, group, node)).await?;
        }
        exchange.server.report_done(&format!("node {} is in HA group {group}", self.node.name()));
        Ok(())
    }

    /// Sets the policy of the node.
    ///
    /// # Errors
    /// With status 5 when the exchange refuses it.
    pub async fn put_policy(&self, policy: Value) -> Outcome {
        let exchange = match &self.as_user {
            Some(exchange) => exchange.clone(),
            None => Exchange {
                server: self.as_node.clone(),
                org: self.node.org.clone(),
                caller: self.node.clone(),
            },
        };
        node_part::put_policy(&exchange, &self.node.name(), policy).await
    }
}

/// Waits until the agent runs a service; a service that does not start is reported, with the reason, and is
/// not a failure.
///
/// # Errors
/// With status 5 when the agent does not respond.
pub async fn wait_for_service(agent: &Server, name: &str, org: &str, limit: Duration) -> Outcome {
    print_note(format!("waiting up to {} seconds for service {name} to start", limit.as_secs()));
    let deadline = Instant::now() + limit;
    let mut seen = 0;
    loop {
        let instances = service::instances(agent).await?;
        let is_running = instances.iter().any(|instance| is_started(instance, name, org));
        seen = if is_running { seen + 1 } else { 0 };
        if seen >= TIMES_SEEN {
            print_note(format!("service {name} runs"));
            return Ok(());
        }
        if Instant::now() >= deadline {
            return explain_absence(agent, name).await;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn is_started(instance: &ServiceInstance, name: &str, org: &str) -> bool {
    instance.ref_url == name
        && (org.is_empty() || org == "*" || instance.organization == org)
        && instance.execution_start_time != 0
}

async fn explain_absence(agent: &Server, name: &str) -> Outcome {
    print_note(format!("service {name} did not start in time"));
    let active = agreement::active(agent).await?;
    match active.iter().find(|agreement| agreement.workload_to_run.url == name) {
        Some(agreement) if agreement.agreement_finalized_time == 0 => {
            print_note("there is an agreement for it that is not final yet");
        }
        Some(_) => print_note("it has an agreement, and its start has not been seen yet"),
        None => print_note("there is no agreement for it; see why with: hzn explain NODE POLICY"),
    }
    let doing = "asking the agent for its errors";
    for record in agent.call(doing, agent.client.surfaced_error_records()).await? {
        let error: SurfacedError = evenkeel_wire::agent::read(record)
            .map_err(|error| agent.failed(doing, &ClientError::from(error)))?;
        print_note(format!("the node reports: {}", error.message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_counts_as_started_from_its_start_time_on() {
        let instance = ServiceInstance {
            ref_url: "cam".to_owned(),
            organization: "acme".to_owned(),
            execution_start_time: 5,
            ..ServiceInstance::default()
        };
        assert!(is_started(&instance, "cam", "") && is_started(&instance, "cam", "acme"));
        assert!(!is_started(&instance, "cam", "other") && !is_started(&instance, "other", ""));
        assert!(!is_started(&ServiceInstance { execution_start_time: 0, ..instance }, "cam", ""));
    }
}
