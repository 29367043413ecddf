//! Members of HA groups.

use super::kinds::GROUPS;
use crate::context::Exchange;
use crate::exit::Outcome;

/// Ids of the members of a group.
///
/// # Errors
/// With status 8 when the group does not exist.
pub async fn members(exchange: &Exchange, name: &str) -> Outcome<Vec<String>> {
    let (org, id) = exchange.split(name);
    let doing = format!("reading HA group {name}");
    let found = exchange.server.call(&doing, exchange.server.client.ha_group(&org, &id)).await?;
    found.map(|group| group.members).ok_or_else(|| GROUPS.missing(name))
}
