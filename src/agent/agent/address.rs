//! The addresses of this machine, and the one by which other nodes reach it.
//!
//! A machine with containers has bridges whose addresses exist on other machines, too. Therefore the address is the
//! source address of packets to the hub, unless the operator names one. Source: orchestration 1.7, C4.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use evenkeel_wire::exchange::node_report::NodeAddress;
use nix::ifaddrs::getifaddrs;
use tokio::{net::lookup_host, time::timeout};

use crate::AgentSettings;

/// Longest wait for the name of the hub.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Most addresses that are reported.
const MOST_ADDRESSES: usize = 32;
/// An address outside of this machine and its networks; nothing is sent to it.
const OUTSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
/// Prefixes of the names of interfaces between containers and their machine.
const BRIDGES: [&str; 8] = ["docker", "br-", "veth", "virbr", "cni", "flannel", "podman", "lxc"];

/// The addresses of this machine.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The address that the operator names.
    named: Option<IpAddr>,
    /// Hosts and ports of the hub.
    hubs: Vec<String>,
    main: Mutex<Option<IpAddr>>,
}

impl Addresses {
    /// Creates the addresses of the node that the settings describe.
    pub fn of(settings: &AgentSettings) -> Self {
        Self::new(settings.node_address, settings.hubs())
    }

    /// `hubs`: addresses of the hub, as URLs.
    fn new<'u>(named: Option<IpAddr>, hubs: impl Iterator<Item = &'u str>) -> Self {
        Self { named, hubs: hubs.filter_map(host_and_port).collect(), main: Mutex::new(named) }
    }

    /// Returns the address by which other nodes reach this one, if it is known.
    pub fn main(&self) -> Option<String> {
        self.main.lock().unwrap_or_else(PoisonError::into_inner).map(|address| address.to_string())
    }

    /// Reads the addresses again, because networks come and go, and returns all of them.
    pub async fn refresh(&self) -> Vec<NodeAddress> {
        let all = addresses();
        let found = match self.named {
            Some(named) => Some(named),
            None => self.towards_hub().await.or_else(|| source_towards(OUTSIDE)).or_else(|| best_of(&all)),
        };
        if found.is_some() {
            *self.main.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        all
    }

    /// Returns the source address of packets to the hub; none if the hub is on this machine.
    async fn towards_hub(&self) -> Option<IpAddr> {
        for hub in &self.hubs {
            let Ok(Ok(found)) = timeout(LOOKUP_TIMEOUT, lookup_host(hub)).await else { continue };
            if let Some(address) = found.into_iter().find_map(source_towards) {
                return Some(address);
            }
        }
        None
    }
}

fn host_and_port(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?;
    let usual = if uri.scheme_str()? == "https" { 443 } else { 80 };
    Some(format!("{host}:{}", uri.port_u16().unwrap_or(usual)))
}

/// Returns the source address of packets to a target; none for a target on this machine. Nothing is sent.
fn source_towards(target: SocketAddr) -> Option<IpAddr> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Returns the addresses of this machine that others may reach.
fn addresses() -> Vec<NodeAddress> {
    let Ok(found) = getifaddrs() else { return Vec::new() };
    let address = |one: nix::ifaddrs::InterfaceAddress| {
        let storage = one.address?;
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        let address = v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))?;
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let is_meant = !address.is_loopback() && !is_link_local;
        is_meant.then(|| NodeAddress { interface: one.interface_name, address: address.to_string() })
    };
    found.filter_map(address).take(MOST_ADDRESSES).collect()
}

/// Returns the first address that is not one of a bridge to containers, or else the first one.
fn best_of(all: &[NodeAddress]) -> Option<IpAddr> {
    let is_bridge = |one: &&NodeAddress| BRIDGES.iter().any(|bridge| one.interface.starts_with(bridge));
    let outside = all.iter().find(|one| !is_bridge(one));
    outside.or(all.first())?.address.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(interface: &str, address: &str) -> NodeAddress {
        NodeAddress { interface: interface.to_owned(), address: address.to_owned() }
    }

    #[test]
    fn bridge_to_containers_is_the_last_choice() {
        let all =
            [address("docker0", "172.17.0.1"), address("br-12ab", "172.18.0.1"), address("eth0", "10.0.0.5")];
        assert_eq!(best_of(&all), "10.0.0.5".parse().ok());
        assert_eq!(best_of(&all[..2]), "172.17.0.1".parse().ok());
        assert_eq!(best_of(&[]), None);
    }

    #[test]
    fn hub_is_found_in_its_address() {
        assert_eq!(host_and_port("https://hub.example/v1").as_deref(), Some("hub.example:443"));
        assert_eq!(host_and_port("http://[::1]:8080").as_deref(), Some("[::1]:8080"));
        assert_eq!(host_and_port("nonsense"), None);
    }

    #[tokio::test]
    async fn named_address_is_reported_and_a_hub_on_this_machine_leads_to_none() {
        let named = "192.0.2.7".parse().ok();
        let addresses = Addresses::new(named, ["http://127.0.0.1:1"].into_iter());
        addresses.refresh().await;
        assert_eq!(addresses.main().as_deref(), Some("192.0.2.7"));
        let addresses = Addresses::new(None, ["http://127.0.0.1:1"].into_iter());
        assert_eq!(addresses.towards_hub().await, None);
        // The reported address is one of this machine, if it has one.
        let all = addresses.refresh().await;
        let main = addresses.main();
        assert_eq!(main.is_some(), !all.is_empty());
        assert!(main.is_none_or(|main| all.iter().any(|one| one.address == main)));
    }
}
