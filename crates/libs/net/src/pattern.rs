//! Entries of `allowed_hosts` and `blocked_hosts`: `host`, `*.host`, an IP address or a CIDR block.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use url::Host;

/// Entry of a host list, with a text form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Exactly this name.
    Name(String),
    /// All subdomains of this name, at any depth, but not the name itself.
    Subdomains(String),
    Address(IpAddr),
    /// CIDR block `network/prefix`; the bits after the prefix are zero.
    Block(IpNet),
}

/// Error for a text that is not a host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither a host name, `*.` and a host name, an IP address, nor a CIDR block such as 10.0.0.0/8")]
pub struct PatternError {
    pub text: String,
}

impl HostPattern {
    /// Whether this entry matches the name `host` (lower case, no trailing dot).
    #[must_use]
    pub fn matches_name(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => name == host,
            Self::Subdomains(parent) => host.strip_suffix(parent.as_str()).is_some_and(|left| left.ends_with('.')),
            Self::Address(_) | Self::Block(_) => false,
        }
    }

    /// Whether this entry matches `address`. IPv4 and v4-mapped IPv6 are equivalent; the caller unwraps other embedded
    /// addresses.
    #[must_use]
    pub fn matches_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Address(named) => *named == address,
            Self::Block(block) => block.contains(&address),
            Self::Name(_) | Self::Subdomains(_) => false,
        }
    }

    /// Whether this entry matches exactly one address.
    #[must_use]
    pub fn is_single_address(&self) -> bool {
        match self {
            Self::Address(_) => true,
            Self::Block(block) => block.prefix_len() == block.max_prefix_len(),
            Self::Name(_) | Self::Subdomains(_) => false,
        }
    }

    /// Whether this entry names one host, one address or a block inside the link-local range, rather than a whole
    /// domain or a large part of the address space.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        match self {
            Self::Name(_) | Self::Address(_) => true,
            Self::Block(IpNet::V4(block)) => block.prefix_len() >= 16,
            Self::Block(IpNet::V6(block)) => block.prefix_len() >= 10,
            Self::Subdomains(_) => false,
        }
    }
}

/// Returns the block with the bits after its prefix cleared; a block of IPv4-mapped IPv6 addresses becomes an IPv4
/// block.
fn canonical(block: IpNet) -> Option<IpNet> {
    let mapped = match block {
        IpNet::V6(v6) => v6.addr().to_ipv4_mapped().map(|v4| (v4, v6.prefix_len())),
        IpNet::V4(_) => None,
    };
    match mapped {
        Some((v4, prefix)) => Ipv4Net::new(v4, prefix.checked_sub(96)?).ok().map(|block| IpNet::V4(block.trunc())),
        None => Some(block.trunc()),
    }
}

fn parse_name(text: &str) -> Option<String> {
    match Host::parse(text.strip_suffix('.').unwrap_or(text)).ok()? {
        Host::Domain(name) => {
            let is_well_formed = name.len() <= 253
                && !name.contains('*')
                && name.split('.').all(|label| (1..=63).contains(&label.len()));
            is_well_formed.then_some(name)
        }
        _ => None,
    }
}

fn parse_pattern(text: &str) -> Option<HostPattern> {
    if text.contains('/') {
        return text.parse().ok().and_then(canonical).map(HostPattern::Block);
    }
    if let Some(parent) = text.strip_prefix("*.") {
        return parse_name(parent).map(HostPattern::Subdomains);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(HostPattern::Address(address.to_canonical()));
    }
    parse_name(text).map(HostPattern::Name)
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_pattern(text.trim()).ok_or_else(|| PatternError { text: text.chars().take(260).collect() })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Subdomains(parent) => write!(f, "*.{parent}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Block(block) => write!(f, "{block}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn names_match_exactly_and_wildcards_match_subdomains() {
        assert!(pattern("Example.COM.").matches_name("example.com"));
        assert!(!pattern("example.com").matches_name("www.example.com"));
        assert!(pattern("*.example.com").matches_name("a.b.example.com"));
        assert!(!pattern("*.example.com").matches_name("example.com"));
        assert!(!pattern("*.example.com").matches_name("notexample.com"));
        assert!(pattern("bücher.example").matches_name("xn--bcher-kva.example"));
    }

    #[test]
    fn blocks_match_their_addresses() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3/8", "10.9.9.9", "9.9.9.9"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::ffff:10.0.0.0/104", "10.2.2.2", "::1"),
            ("192.0.2.7", "::ffff:192.0.2.7", "192.0.2.8"),
            ("[::1]", "::1", "::2"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
        ] {
            assert!(pattern(text).matches_address(inside.parse().unwrap()), "{text} {inside}");
            assert!(!pattern(text).matches_address(outside.parse().unwrap()), "{text} {outside}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "http://x",
            "10.0.0.0/33",
            "::/129",
            "x/8",
            "*.*.x",
            "a..b/c",
            "1.2.3.4:80",
            "a..b",
            ".a",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_form_round_trips(text in "(\\*\\.)?[a-z0-9]{1,8}(\\.[a-z]{1,5}){0,2}|[0-9.]{7,15}(/[0-9]{1,2})?") {
            if let Ok(read) = text.parse::<HostPattern>() {
                prop_assert_eq!(read.to_string().parse::<HostPattern>(), Ok(read));
            }
        }
    }
}
