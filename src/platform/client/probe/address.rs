//! Addresses that requests may reach.
//!
//! The URL of a user must not make the hub send requests to itself, to other services on its machine, to the networks
//! behind its firewall, or to the metadata service of a cloud. Names are resolved here, so that a name cannot resolve
//! to another address when the connection is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Url};

/// Addresses that requests may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressRule {
    /// All of them.
    Any,
    /// Public ones, and those that are listed.
    Public(Arc<AllowedAddresses>),
}

/// Addresses that requests may reach besides public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedAddresses {
    /// Loopback and link-local addresses, and those of this machine, apart from the metadata services of clouds.
    pub local: bool,
    /// Any address in these.
    pub networks: Networks,
}

/// Networks by their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl FromStr for Networks {
    type Err = String;

    /// Addresses and networks, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            let address = part.parse::<IpAddr>().map(IpNet::from);
            let network = address.or_else(|_| part.parse::<IpNet>());
            network.map_err(|_| format!("'{part}' is neither an address nor a network like 10.0.0.0/8"))
        };
        parts.map(network).collect::<Result<_, _>>().map(Self)
    }
}

impl Networks {
    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl AddressRule {
    /// Creates the rule that requests may reach public addresses and these.
    #[must_use]
    pub fn public(allowed: AllowedAddresses) -> Self {
        Self::Public(Arc::new(allowed))
    }

    /// Lets a client keep the rule.
    pub(super) fn applied_to(&self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Any => builder.dns_resolver(AnyNames),
            // A proxy would resolve names by itself.
            Self::Public(allowed) => builder.no_proxy().dns_resolver(CheckedNames(allowed.clone())),
        }
    }

    /// Checks the host of a URL, if it is an address.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match (self, address) {
            (Self::Public(allowed), Ok(address)) => allowed.refusal(address).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

impl AllowedAddresses {
    /// Returns why an address is refused.
    fn refusal(&self, address: IpAddr) -> Option<String> {
        let meant = embedded(address);
        if self.networks.contains(meant) || self.networks.contains(address) {
            return None;
        }
        let kind = match meant {
            meant if is_metadata(meant) => "an address of the metadata service of a cloud",
            meant if is_local(meant) => {
                return self.refused_unless_local(address, "a loopback or link-local address");
            }
            meant if is_own(meant) => {
                return self.refused_unless_local(address, "an address of the hub itself");
            }
            meant if meant.is_unspecified() || meant.is_multicast() || !is_public(meant) => {
                "no public address"
            }
            _ => return None,
        };
        Some(refused(address, kind, "checks-networks"))
    }

    fn refused_unless_local(&self, address: IpAddr, kind: &str) -> Option<String> {
        (!self.local).then(|| refused(address, kind, "checks-local"))
    }
}

fn refused(address: IpAddr, kind: &str, setting: &str) -> String {
    format!(
        "{address} is {kind}, which requests of the hub do not reach unless the setting {setting} allows it"
    )
}

/// Returns whether this is the address of a cloud's metadata service, which provides credentials.
fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(
            v4.octets(),
            [169, 254, 169, 254]
                | [169, 254, 170, 2 | 23]
                | [168, 63, 129, 16]
                | [100, 100, 100, 200]
                | [192, 0, 0, 192]
        ),
        IpAddr::V6(v6) => {
            let services = ["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"];
            services.iter().any(|service| service.parse::<Ipv6Addr>() == Ok(v6))
        }
    }
}

fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

/// Returns whether an address may belong to a machine of the public internet, and is not reserved for other uses by RFC 6890.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_benchmark = a == 198 && (18..20).contains(&b);
            let is_protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
            !(v4.is_private() || is_shared || is_benchmark || is_protocol || a == 0 || a >= 240)
        }
        IpAddr::V6(v6) => {
            let [first, second, third, ..] = v6.segments();
            // Global unicast, without tunnels, whose endpoint may be any address.
            let is_teredo = first == 0x2001 && second == 0;
            let is_translated = (first, second, third) == (0x64, 0xff9b, 1);
            (first & 0xe000 == 0x2000) && !is_teredo && !is_translated
        }
    }
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped or compatible, behind a translator (RFC 6052), or of 6to4.
fn embedded(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if ends_with_v4(v6) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        IpAddr::V6(v6) if v6.segments()[0] == 0x2002 => {
            let [_, _, a, b, c, d, ..] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other.to_canonical(),
    }
}

/// Returns whether the last four bytes of an address are an IPv4 address: behind a translator, or in the old compatible form.
fn ends_with_v4(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => true,
        [0, 0, 0, 0, 0, 0, high, _] => high != 0,
        _ => false,
    }
}

/// Returns whether an address belongs to this machine, because only those can be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// Reason why a name resolves to no permitted address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unresolved(String);

async fn look_up(name: &Name) -> Result<Vec<SocketAddr>, Unresolved> {
    match tokio::net::lookup_host((name.as_str(), 0)).await {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(Unresolved(format!("the name {} is not known: {error}", name.as_str()))),
    }
}

struct AnyNames;

impl Resolve for AnyNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { Ok(Box::new(look_up(&name).await?.into_iter()) as Addrs) })
    }
}

struct CheckedNames(Arc<AllowedAddresses>);

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = self.0.clone();
        Box::pin(async move {
            let found = look_up(&name).await?;
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found {
                match rule.refusal(address.ip()) {
                    None => allowed.push(address),
                    Some(why) => refused = Some(why),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                None => Ok(Box::new(allowed.into_iter()) as Addrs),
                Some(why) => Err(Unresolved(format!("{}: {why}", name.as_str())).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(local: bool, networks: &str) -> AddressRule {
        let networks = networks.parse().expect("networks");
        AddressRule::public(AllowedAddresses { local, networks })
    }

    fn is_refused(rule: &AddressRule, host: &str) -> bool {
        let url = Url::parse(&format!("http://{host}:8080/x")).expect("a URL");
        rule.check(&url).is_err()
    }

    const METADATA: [&str; 9] = [
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "169.254.170.2",
        "168.63.129.16",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[::ffff:169.254.169.254]",
    ];
    const LOCAL: [&str; 10] = [
        "127.0.0.1",
        "127.8.9.10",
        "2130706433",
        "0x7f.1",
        "169.254.7.7",
        "[::1]",
        "[fe80::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ];
    const PRIVATE: [&str; 16] = [
        "10.255.255.254",
        "172.16.0.1",
        "172.31.255.1",
        "192.168.1.1",
        "100.64.0.1",
        "198.18.0.1",
        "192.0.0.8",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[fc00::1]",
        "[fd12:3456::1]",
        "[::ffff:10.0.0.1]",
        "[ff02::1]",
    ];

    #[test]
    fn everything_but_public_addresses_is_refused_however_it_is_written() {
        let usual = rule(false, "");
        for host in METADATA.iter().chain(&LOCAL).chain(&PRIVATE) {
            assert!(is_refused(&usual, host), "{host}");
        }
        for host in ["[64:ff9b:1::1]", "[2001:0:1::1]", "[2002:a00:1::]", "[::a00:1]", "[fec0::1]", "[::]"] {
            assert!(is_refused(&usual, host), "{host}");
        }
        for host in [
            "192.0.2.1",
            "8.8.8.8",
            "172.32.0.1",
            "[2001:db8::1]",
            "[2606:4700::1]",
            "example.org",
            "localhost",
        ] {
            assert!(!is_refused(&usual, host), "{host}");
        }
        assert!(!is_refused(&AddressRule::Any, "127.0.0.1"));
    }

    #[test]
    fn lists_allow_what_they_name_and_nothing_else() {
        let listed = rule(false, "10.0.0.0/8, 192.168.1.1, fd12::/16, 169.254.169.254");
        for host in ["10.1.2.3", "192.168.1.1", "[fd12:3456::1]", "[::ffff:10.0.0.1]", "169.254.169.254"] {
            assert!(!is_refused(&listed, host), "{host}");
        }
        for host in ["192.168.1.2", "172.16.0.1", "127.0.0.1", "169.254.170.2"] {
            assert!(is_refused(&listed, host), "{host}");
        }
        let local = rule(true, "");
        assert!(LOCAL.iter().all(|host| !is_refused(&local, host)));
        assert!(METADATA.iter().all(|host| is_refused(&local, host)), "they are no services of the machine");
        assert!("10.0.0.0/33".parse::<Networks>().is_err());
    }

    #[tokio::test]
    async fn name_of_a_local_address_is_refused_when_it_is_resolved() {
        let name: Name = "localhost".parse().expect("a name");
        let Err(refused) = CheckedNames(Arc::default()).resolve(name).await else {
            panic!("localhost was resolved")
        };
        assert!(refused.to_string().contains("loopback"), "{refused}");
    }

    #[test]
    fn address_of_this_machine_is_found() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
