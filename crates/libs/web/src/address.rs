//! Client address as seen through trusted proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use http::HeaderMap;
use ipnet::IpNet;

/// Address of the client, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

/// Networks whose `X-Forwarded-For` header is trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Parses a list of addresses and CIDR networks.
    ///
    /// # Errors
    /// A message that names the invalid entry.
    pub fn parse<'t>(entries: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let parse = |entry: &str| {
            let network = entry.parse().or_else(|_| entry.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| format!("`{entry}` is neither an IP address nor a network such as 10.0.0.0/8"))
        };
        entries.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the address belongs to a trusted proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the last hop that is not a trusted proxy, or the last one before an unreadable hop. A peer that is not
    /// trusted is itself the client.
    #[must_use]
    pub fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if self.0.is_empty() {
            return client;
        }
        // Read as bytes so that no line is skipped: proxies append the true address to what the client sent.
        let lines: Vec<&[u8]> = headers.get_all("x-forwarded-for").iter().map(http::HeaderValue::as_bytes).collect();
        for hop in lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            if !self.contains(client) {
                break;
            }
            match parse_hop(hop) {
                Some(address) => client = address.to_canonical(),
                None => break,
            }
        }
        client
    }
}

impl TrustedProxies {
    /// Inserts the [`ClientAddress`] into the request's extensions.
    pub(crate) fn record(&self, request: &mut Request) {
        if let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>().copied() {
            let client = self.client_of(peer.ip(), request.headers());
            request.extensions_mut().insert(ClientAddress(client));
        }
    }
}

/// Parses an address, optionally in brackets and with a port.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    if let Ok(address) = hop.parse() {
        return Some(address);
    }
    if let Ok(address) = hop.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let bracketed = hop.strip_prefix('[')?.strip_suffix(']')?;
    bracketed.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", value.parse().unwrap());
        headers
    }

    #[test]
    fn only_trusted_peers_can_forward_an_address() {
        let trusted = TrustedProxies::parse(["10.0.0.0/8", "::1"]).unwrap();
        let client =
            |peer: &str, header: &str| trusted.client_of(peer.parse().unwrap(), &forwarded(header)).to_string();
        assert_eq!(client("192.0.2.9", "127.0.0.1"), "192.0.2.9");
        assert_eq!(client("10.1.1.1", "198.51.100.7"), "198.51.100.7");
        assert_eq!(client("10.1.1.1", "127.0.0.1, 198.51.100.7, 10.2.2.2"), "198.51.100.7");
        assert_eq!(client("10.1.1.1", "nonsense"), "10.1.1.1");
        assert_eq!(client("::1", "2001:db8::5"), "2001:db8::5");
        assert_eq!(client("::ffff:10.1.1.1", "198.51.100.7"), "198.51.100.7");
    }

    #[test]
    fn unreadable_hop_does_not_hide_the_hops_behind_it() {
        let trusted = TrustedProxies::parse(["10.0.0.0/8"]).unwrap();
        let client = |lines: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", http::HeaderValue::from_bytes(line).unwrap());
            }
            trusted.client_of("10.1.1.1".parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client(&[b"\x80, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(&[b"\xff\xfe,198.51.100.7, 10.2.2.2"]), "198.51.100.7");
        assert_eq!(client(&[b"127.0.0.1, \x80, 10.2.2.2"]), "10.2.2.2", "nothing before an unreadable hop counts");
        assert_eq!(client(&[b"127.0.0.1", b"\x80"]), "10.1.1.1", "no line is skipped");
        assert_eq!(client(&[b"\x80", b"198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(&[b"127.0.0.1", b"10.2.2.2, "]), "10.1.1.1");
    }

    #[test]
    fn hops_with_brackets_and_ports_are_parsed() {
        for (hop, address) in [
            ("198.51.100.7:443", Some("198.51.100.7")),
            ("[2001:db8::5]:443", Some("2001:db8::5")),
            ("[2001:db8::5]", Some("2001:db8::5")),
            (" 2001:db8::5 ", Some("2001:db8::5")),
            ("198.51.100.7:", None),
            ("198.51.100.7:70000", None),
            ("[198.51.100.7]", None),
            ("[2001:db8::5", None),
            ("[]", None),
            ("unknown", None),
            ("", None),
        ] {
            let expected = address.map(|address| address.parse().unwrap());
            assert_eq!(parse_hop(hop.as_bytes()), expected, "{hop}");
        }
        let trusted = TrustedProxies::parse(["10.0.0.0/8"]).unwrap();
        let headers = forwarded("127.0.0.1, [::ffff:198.51.100.7]:443, 10.2.2.2:80");
        assert_eq!(trusted.client_of("10.1.1.1".parse().unwrap(), &headers).to_string(), "198.51.100.7");
    }

    #[test]
    fn parse_rejects_invalid_networks() {
        for entry in ["proxy.example", "10.0.0.0/33", "10.0.0.0/x", ""] {
            assert!(TrustedProxies::parse([entry]).is_err(), "{entry}");
        }
    }
}
