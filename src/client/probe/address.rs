//! Which addresses requests may reach.
//!
//! A URL that a user writes must not let the hub send requests to itself, to what listens only on its machine, or to the metadata service of a
//! cloud. Names are resolved here, so that a name cannot stand for another address when the connection is made.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Url};

/// Which addresses requests may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// All of them.
    Any,
    /// Those of other machines: neither loopback nor link-local addresses, nor those of this machine.
    OtherMachines,
}

impl AddressRule {
    /// Lets a client keep the rule.
    pub(super) fn applied_to(self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Any => builder,
            // A proxy would resolve names by itself.
            Self::OtherMachines => builder.no_proxy().dns_resolver(OtherMachines),
        }
    }

    /// Checks the host of a URL, if it is an address.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn check(self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) if self == Self::OtherMachines => refusal(address).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

/// Returns why an address is refused.
fn refusal(address: IpAddr) -> Option<String> {
    let kind = match embedded(address) {
        IpAddr::V4(v4) if v4.is_link_local() => "a link-local address",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "a link-local address",
        IpAddr::V4(v4) if v4.is_broadcast() => "a broadcast address",
        other if other.is_loopback() => "a loopback address",
        other if other.is_unspecified() => "no address of a machine",
        other if other.is_multicast() => "a multicast address",
        other if is_own(other) => "an address of the hub itself",
        _ => return None,
    };
    Some(format!("{address} is {kind}, which requests of the hub do not reach"))
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped, or behind a translator (RFC 6052).
fn embedded(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other.to_canonical(),
    }
}

/// Returns whether an address is one of this machine: only those can be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

struct OtherMachines;

impl Resolve for OtherMachines {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found {
                match refusal(address.ip()) {
                    None => allowed.push(address),
                    Some(why) => refused = Some(why),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                None => Ok(Box::new(allowed.into_iter()) as Addrs),
                Some(why) => {
                    let why = format!("{}: {why}", name.as_str());
                    Err(Error::new(ErrorKind::PermissionDenied, why).into())
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(url: &str) -> bool {
        AddressRule::OtherMachines.check(&Url::parse(url).expect("a URL")).is_err()
    }

    #[test]
    fn own_and_local_addresses_are_refused_however_they_are_written() {
        for host in [
            "127.0.0.1",
            "127.8.9.10",
            "2130706433",
            "0x7f.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "[::1]",
            "[::]",
            "[fe80::1]",
            "[ff02::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::7f00:1]",
        ] {
            assert!(is_refused(&format!("http://{host}:8080/x")), "{host}");
        }
        for host in ["192.0.2.1", "10.255.255.254", "[2001:db8::1]", "example.org", "localhost"] {
            assert!(!is_refused(&format!("https://{host}/")), "{host}");
        }
        assert_eq!(AddressRule::Any.check(&Url::parse("http://127.0.0.1/").expect("a URL")), Ok(()));
    }

    #[tokio::test]
    async fn name_of_a_local_address_is_refused_when_it_is_resolved() {
        let name: Name = "localhost".parse().expect("a name");
        let Err(refused) = OtherMachines.resolve(name).await else { panic!("localhost was resolved") };
        assert!(refused.to_string().contains("loopback"), "{refused}");
    }

    #[test]
    fn address_of_this_machine_is_found() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
