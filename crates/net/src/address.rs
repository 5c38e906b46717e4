//! What kind of place an IP address is, read from the special-purpose registries of IANA
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>, `…-ipv6-special-registry`).
//! IPv6 forms that carry an IPv4 address are judged by what they carry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of address, from the most harmless to the least: where one address can be read in
/// two ways, the later kind counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// Globally reachable unicast.
    Public,
    /// RFC 1918, unique local, carrier-grade NAT, IETF protocol assignments, benchmarking,
    /// deprecated site-local.
    Private,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Where cloud providers hand out credentials to whoever asks from inside.
    Metadata,
    /// Unspecified, multicast, broadcast, documentation, reserved: no HTTP server can be there,
    /// and some systems route the unspecified address to loopback.
    Unreachable,
}

/// Metadata services: EC2 and most clouds, Alibaba, Azure's wire server.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];

/// Metadata services over IPv6: EC2, EKS pod identity, Google, Scaleway.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// Names under which metadata services answer, whatever they resolve to.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

impl AddressClass {
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    /// Whether `host` (lower case, no trailing dot) is a name of a metadata service.
    #[must_use]
    pub fn is_metadata_name(host: &str) -> bool {
        METADATA_NAMES.contains(&host)
    }

    /// For sentences: `a private address`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata service",
            Self::Unreachable => "not an address that a server can have",
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        if METADATA_V4.contains(&address) {
            return Self::Metadata;
        }
        match (a, b, c) {
            (127, ..) => Self::Loopback,
            (169, 254, _) => Self::LinkLocal,
            (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) => {
                Self::Private
            }
            // "This network", 6to4 relays (deprecated), documentation, multicast, reserved, broadcast.
            (0, ..) | (192, 88, 99) | (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (224.., ..) => Self::Unreachable,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if METADATA_V6.contains(&address) {
            return Self::Metadata;
        }
        if address.is_loopback() {
            return Self::Loopback;
        }
        if address.is_unspecified() || address.is_multicast() {
            return Self::Unreachable;
        }
        if let Some(carried) = Self::of_carried(address) {
            return carried;
        }
        let s = address.segments();
        match s[0] {
            0xfe80..=0xfebf => Self::LinkLocal,
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Self::Private,
            // Benchmarking, ORCHID, documentation.
            0x2001 if s[1] == 2 && s[2] == 0 => Self::Private,
            0x2001 if s[1] == 0xdb8 || (s[1] & 0xfff0) == 0x10 => Self::Unreachable,
            0x3fff if s[1] < 0x1000 => Self::Unreachable,
            0x2000..=0x3fff => Self::Public,
            _ => Self::Unreachable,
        }
    }

    /// The class of the IPv4 address inside, for the forms that have one.
    fn of_carried(address: Ipv6Addr) -> Option<Self> {
        let o = address.octets();
        let s = address.segments();
        let v4 = |i: usize, j: usize, k: usize, l: usize| Self::of_v4(Ipv4Addr::new(o[i], o[j], o[k], o[l]));
        match s {
            // Mapped (::ffff:0:0/96), compatible (::/96), translated (::ffff:0:0:0/96).
            [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(v4(12, 13, 14, 15)),
            // NAT64, well-known prefix (RFC 6052).
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(v4(12, 13, 14, 15)),
            // NAT64, local-use prefix (RFC 8215): how long the operator's prefix is cannot be seen, so
            // each layout of RFC 6052 that holds an address counts.
            [0x64, 0xff9b, 1, ..] => {
                let layouts = [v4(12, 13, 14, 15), v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12)];
                let held = layouts.into_iter().filter(|class| *class != Self::Unreachable).max();
                Some(held.unwrap_or(Self::Unreachable))
            }
            [0x2002, ..] => Some(v4(2, 3, 4, 5)),
            // Teredo (RFC 4380): the server, and the client with all bits flipped.
            [0x2001, 0, ..] => {
                let client = Ipv4Addr::new(!o[12], !o[13], !o[14], !o[15]);
                Some(v4(4, 5, 6, 7).max(Self::of_v4(client)))
            }
            _ => None,
        }
    }
}
