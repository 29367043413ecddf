//! Names, values and operators of the properties of nodes, and the fault domains of an organization, from the index of the model.

use axum::Json;
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_planner_model::model::{DomainCounts, KnownName};
use evenkeel_wire::agbot::domain::{DomainCapacity, FleetDomain, FleetDomains};
use evenkeel_wire::agbot::known_properties::{
    KnownProperties, KnownPropertiesQuery, KnownProperty, KnownValue,
};

use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};

const MOST_PROPERTIES: i64 = 200;
const PROPERTIES: u16 = 50;
/// Values of a property.
const VALUES: usize = 20;
/// Domains of a response.
const DOMAINS: usize = 200;
const LONGEST_PREFIX: usize = 256;

impl NamedQuery for KnownPropertiesQuery {
    const KNOWN: Members = known(&["prefix", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_PROPERTIES)?;
        Ok(Self {
            prefix: parameters.text_of("prefix", LONGEST_PREFIX)?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
        })
    }
}

/// Lists the properties of the nodes of an organization that the caller may read.
pub(super) async fn list_known_properties(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<KnownPropertiesQuery>,
) -> Result<Json<KnownProperties>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let model = context.model();
    let all = model.set_of_org(&org);
    let nodes = seen.set(&model).map_or_else(|| all.clone(), |shown| all.and(&shown));
    let limit = usize::from(query.limit.unwrap_or(PROPERTIES));
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let (found, more) = model.known_properties(&nodes, prefix, (limit, VALUES));
    Ok(Json(KnownProperties { properties: found.into_iter().map(property).collect(), more }))
}

fn property(known: KnownName) -> KnownProperty {
    let operators = known.operators().iter().map(|operator| (*operator).to_owned()).collect();
    let values = known.values.into_iter().map(|(value, nodes)| KnownValue { value, nodes });
    KnownProperty {
        name: known.name,
        nodes: known.nodes,
        operators,
        values: values.collect(),
        more: known.has_more,
    }
}

/// Lists the fault domains of an organization with their nodes and capacities.
pub(super) async fn list_fleet_domains(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
) -> Result<Json<FleetDomains>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let (model, now) = (context.model(), context.now());
    let counts = model.domain_counts(&org, |node| seen.shows(node), now);
    let more = counts.len() > DOMAINS;
    let domains = counts.into_iter().take(DOMAINS).map(|(name, counts)| domain(name, counts)).collect();
    Ok(Json(FleetDomains { domains, more }))
}

fn domain(name: String, counts: DomainCounts) -> FleetDomain {
    let DomainCounts { nodes, up, open, instances, running, capacities } = counts;
    let capacities = capacities.into_iter().map(|(name, sum)| {
        let capacity = DomainCapacity { used: rounded(sum.used), usable: rounded(sum.usable) };
        (name, capacity)
    });
    FleetDomain { name, nodes, up, open, instances, running, capacities: capacities.collect() }
}

/// Three decimal places: sums of decimal numbers have many more.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_has_the_operators_of_its_values() {
        let known = KnownName {
            name: "cpu".to_owned(),
            nodes: 3,
            values: vec![("4".to_owned(), 2), ("8".to_owned(), 1)],
            has_more: false,
        };
        let shown = property(known);
        assert_eq!((shown.operators.len(), shown.values[1].value.as_str(), shown.more), (6, "8", false));
        assert_eq!(rounded(0.1 + 0.2), 0.3);
    }
}
