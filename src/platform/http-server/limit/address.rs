//! The address of a client, which trusted proxies report.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;
use ipnet::IpNet;
use thiserror::Error;

const FORWARDED: &str = "x-forwarded-for";
/// Maximum number of addresses that are read from one header; the nearest come last.
const LONGEST_CHAIN: usize = 32;

/// Networks of proxies whose `X-Forwarded-For` is trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

/// A text that names no network.
#[derive(Debug, Error)]
#[error("'{0}' is neither an address nor a network like 10.0.0.0/8")]
pub struct NoNetwork(String);

impl FromStr for TrustedProxies {
    type Err = NoNetwork;

    /// Addresses and networks, separated by commas.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            let address = part.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| part.parse::<IpNet>()).map_err(|_| NoNetwork(part.to_owned()))
        };
        parts.map(network).collect::<Result<_, _>>().map(TrustedProxies)
    }
}

impl TrustedProxies {
    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the address of the client: the peer of the connection or, if that is a trusted proxy, the last address
    /// of `X-Forwarded-For` that is not a trusted proxy.
    #[must_use]
    pub fn client_behind(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.ip().to_canonical();
        if self.0.is_empty() || !self.contains(client) {
            return client;
        }
        // Each proxy appends the address of its client, so only addresses that trusted proxies have appended are reliable.
        let forwarded = headers.get_all(FORWARDED).iter().rev().filter_map(|value| value.to_str().ok());
        for text in forwarded.flat_map(|value| value.rsplit(',')).take(LONGEST_CHAIN) {
            let Some(address) = parse(text.trim()) else { break };
            client = address;
            if !self.contains(client) {
                break;
            }
        }
        client
    }
}

/// An address with or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
}

/// Returns the client prefix to which limits apply: IPv4 /32, or IPv6 /64, the network of one customer.
#[must_use]
pub fn client_prefix(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, forwarded: &[&str]) -> String {
        let trusted: TrustedProxies = trusted.parse().expect("networks");
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED, value.parse().expect("a value"));
        }
        trusted.client_behind(SocketAddr::new(peer.parse().expect("an address"), 1), &headers).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_reports_another_address() {
        assert_eq!(client("", "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("10.0.0.0/8", "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn header_value_of_the_client_itself_is_ignored() {
        assert_eq!(
            client("10.0.0.0/8", "10.1.2.3", &["203.0.113.9, 198.51.100.7, 10.9.9.9"]),
            "198.51.100.7"
        );
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &["203.0.113.9", "198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &["203.0.113.9, nonsense"]), "10.1.2.3");
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn ports_and_both_families_are_understood() {
        assert_eq!(client("::1", "::1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client("::1", "::1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client("127.0.0.1", "::ffff:127.0.0.1", &["2001:db8::1"]), "2001:db8::1");
        assert_eq!(client_prefix("2001:db8:1:2:3::4".parse().expect("one")).to_string(), "2001:db8:1:2::");
        assert!("10.0.0.0/33".parse::<TrustedProxies>().is_err());
    }
}
