//! The offer of a pattern node: the pattern's services and all their dependencies, each with its own policy.
//!
//! An agbot builds the producer policy of such a node from these, and compares their versions with the requirements of a
//! service (agreement protocol 2.3, 3.7, 5.2).

use std::collections::BTreeMap;

use evenkeel_client::{Client, ClientError};
use evenkeel_domain::{
    policy::internal::{AgreementProtocol, ApiSpec, BASIC_PROTOCOL, InternalPolicy},
    version::Version,
};
use evenkeel_ids::{ServiceId, ServiceKey};
use evenkeel_wire::exchange::node::{RegisteredService, ServiceProperty};
use evenkeel_wire::exchange::pattern::PatternService;
use evenkeel_wire::exchange::service::ServiceResponse;
use serde_json::json;

use crate::step::dependency::{self, Definitions, MOST_DEPENDENCIES};

/// Reads every definition that a service may need, directly or through others.
///
/// # Errors
/// [`ClientError`] of the first call that fails.
pub(crate) async fn definitions(
    exchange: &Client,
    service: &ServiceResponse,
) -> Result<Definitions, ClientError> {
    let mut definitions = Definitions::new();
    let mut waiting = service.required_services()?;
    while let Some(need) = waiting.pop() {
        let key = ServiceKey::new(&need.org, &need.url);
        if definitions.contains_key(&key) || definitions.len() >= MOST_DEPENDENCIES {
            continue;
        }
        let found = exchange.find_services(key.org(), key.name(), None, Some(&service.arch)).await?;
        for one in found.values() {
            waiting.extend(one.required_services()?);
        }
        definitions.insert(key, found.into_iter().collect());
    }
    Ok(definitions)
}

/// Reads the offer of a pattern node; `recorded` is the previous offer, whose suspensions are kept.
///
/// # Errors
/// [`ClientError`] of the first call that fails.
pub(crate) async fn offered(
    exchange: &Client,
    pattern: &str,
    arch: &str,
    recorded: &[RegisteredService],
) -> Result<Vec<RegisteredService>, ClientError> {
    let Some((org, name)) = pattern.split_once('/') else { return Ok(Vec::new()) };
    let document = exchange.pattern(org, name).await?.unwrap_or_default();
    let mut offered = BTreeMap::new();
    for entry in document.services()?.iter().filter(|entry| is_for(entry, arch)) {
        let (org, url) = (&entry.service_orgid, &entry.service_url);
        for version in &entry.service_versions {
            let found = exchange.find_services(org, url, Some(&version.version), Some(arch)).await?;
            let Some((id, service)) = found.into_iter().next() else { continue };
            let definitions = definitions(exchange, &service).await?;
            match dependency::in_order(&service.required_services()?, &service.arch, &definitions) {
                Ok(needed) => needed.into_iter().for_each(|(id, needed)| offer(&mut offered, id, needed)),
                Err(why) => tracing::warn!(pattern, service.id = %id, why, "service cannot be offered"),
            }
            offer(&mut offered, &id, &service);
        }
    }
    Ok(offered.into_iter().map(|(key, service)| registered(&key, &service, recorded)).collect())
}

/// Adds a service to the offer; of several versions the highest.
fn offer(offered: &mut BTreeMap<ServiceKey, ServiceResponse>, id: &ServiceId, service: &ServiceResponse) {
    let key = ServiceKey::new(id.org(), &service.url);
    let version = |one: &ServiceResponse| Version::parse(&one.version).ok();
    if offered.get(&key).is_none_or(|known| version(known) < version(service)) {
        offered.insert(key, service.clone());
    }
}

fn registered(
    key: &ServiceKey,
    service: &ServiceResponse,
    recorded: &[RegisteredService],
) -> RegisteredService {
    let org = key.org();
    let last = service.url.rsplit('/').next().unwrap_or_default();
    let is_exclusive = service.sharable == "exclusive";
    let policy = InternalPolicy {
        api_specs: vec![ApiSpec {
            url: service.url.clone(),
            org: org.to_owned(),
            version: service.version.clone(),
            is_exclusive: true,
            arch: service.arch.clone(),
        }],
        agreement_protocols: vec![AgreementProtocol::named(BASIC_PROTOCOL)],
        max_agreements: i64::from(is_exclusive),
        ..InternalPolicy::named(format!("Policy for {org}_{last}"))
    };
    let property = |name: &str, value: &str, kind: &str| ServiceProperty {
        name: name.to_owned(),
        value: value.to_owned(),
        prop_type: kind.to_owned(),
        op: "in".to_owned(),
    };
    let known = recorded.iter().find(|one| one.url == key.as_str());
    RegisteredService {
        config_state: known.map_or_else(|| "active".to_owned(), |known| known.config_state.clone()),
        url: key.to_string(),
        num_agreements: policy.max_agreements,
        policy: Some(json!(policy).to_string()),
        properties: vec![
            property("version", &service.version, "version"),
            property("arch", &service.arch, "string"),
            property("agreementProtocols", BASIC_PROTOCOL, "list"),
        ],
        version: String::new(),
    }
}

/// Returns whether agreements are made for a pattern's service on nodes of the architecture.
fn is_for(entry: &PatternService, arch: &str) -> bool {
    let wanted = entry.service_arch.as_str();
    entry.agreement_less != Some(true) && (matches!(wanted, "" | "*") || wanted == arch)
}
