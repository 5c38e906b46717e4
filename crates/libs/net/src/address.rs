//! Classification of IP addresses by the special-purpose registries of IANA
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>, `…-ipv6-special-registry`). IPv6 addresses that
//! embed an IPv4 address are classified by that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address, ordered from least to most restricted. If an address can be interpreted in two ways, the later
/// class applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// Globally reachable unicast.
    Public,
    /// RFC 1918, unique local, carrier-grade NAT, IETF protocol assignments, benchmarking,
    /// deprecated site-local.
    Private,
    /// `127.0.0.0/8`, `::1`; for [`Trust::Untrusted`] also the machine's own public addresses.
    Loopback,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Metadata services, where cloud providers hand out credentials to any local process.
    Metadata,
    /// Unspecified, multicast, broadcast, documentation, reserved: no HTTP server can exist there, and some systems
    /// route the unspecified address to loopback.
    Unreachable,
}

/// Trust in the origin of a request's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    /// An agent, a page, a template or an event can influence it: only public addresses are allowed.
    Untrusted,
    /// The owner entered it: private and loopback addresses are allowed too.
    Owner,
}

impl Trust {
    pub(crate) fn may_reach(self, class: AddressClass) -> bool {
        match class {
            AddressClass::Public => true,
            AddressClass::Private | AddressClass::Loopback => self == Self::Owner,
            AddressClass::LinkLocal | AddressClass::Metadata | AddressClass::Unreachable => false,
        }
    }
}

/// Metadata services: EC2 and most clouds, ECS and EKS credentials, Tencent, Alibaba, Azure's wire server, Oracle's
/// classic cloud.
const METADATA_V4: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Metadata services over IPv6: EC2, EKS pod identity, Google, Scaleway.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// Names of metadata services, restricted regardless of their addresses.
const METADATA_NAMES: [&str; 8] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "rancher-metadata",
];

impl AddressClass {
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::classify_v4(v4),
            IpAddr::V6(v6) => Self::classify_v6(v6),
        }
    }

    /// Whether `host` (lower case, no trailing dot) is the name of a metadata service.
    #[must_use]
    pub fn is_metadata_name(host: &str) -> bool {
        METADATA_NAMES.contains(&host)
    }

    /// Returns a noun phrase for messages, such as `a private address`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata service",
            Self::Unreachable => "a reserved address",
        }
    }

    fn classify_v4(address: Ipv4Addr) -> Self {
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

    fn classify_v6(address: Ipv6Addr) -> Self {
        if METADATA_V6.contains(&address) {
            return Self::Metadata;
        }
        if address.is_loopback() {
            return Self::Loopback;
        }
        if address.is_unspecified() || address.is_multicast() {
            return Self::Unreachable;
        }
        let s = address.segments();
        let embedded = embedded_v4(address).into_iter().map(Self::classify_v4);
        match s {
            // The length of the operator's prefix is unknown, so every layout that contains an address is considered.
            [0x64, 0xff9b, 1, ..] => {
                embedded.filter(|class| *class != Self::Unreachable).max().unwrap_or(Self::Unreachable)
            }
            [0, 0, 0, 0, 0, 0xffff | 0, ..]
            | [0, 0, 0, 0, 0xffff, 0, ..]
            | [0x64, 0xff9b, 0, 0, 0, 0, ..]
            | [0x2002, ..]
            | [0x2001, 0, ..] => embedded.max().unwrap_or(Self::Unreachable),
            _ => embedded.fold(Self::classify_v6_prefix(s), Self::max),
        }
    }

    /// Classifies an IPv6 address that embeds no IPv4 address.
    fn classify_v6_prefix(s: [u16; 8]) -> Self {
        match s[0] {
            0xfe80..=0xfebf => Self::LinkLocal,
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Self::Private,
            // IETF protocol assignments (2001::/23): benchmarking, anycast to the nearest router, ORCHID.
            0x2001 if s[1] < 0x200 => Self::Private,
            // Documentation.
            0x2001 if s[1] == 0xdb8 => Self::Unreachable,
            0x3fff if s[1] < 0x1000 => Self::Unreachable,
            0x2000..=0x3fff => Self::Public,
            _ => Self::Unreachable,
        }
    }
}

/// Returns the IPv4 addresses that an IPv6 address may embed, which are the destinations if the network translates or
/// tunnels it.
pub(crate) fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let o = address.octets();
    let v4 = |i: usize, j: usize, k: usize, l: usize| Ipv4Addr::new(o[i], o[j], o[k], o[l]);
    match address.segments() {
        // Mapped (::ffff:0:0/96), compatible (::/96), translated (::ffff:0:0:0/96).
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![v4(12, 13, 14, 15)],
        // NAT64, well-known prefix (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![v4(12, 13, 14, 15)],
        // NAT64, local-use prefix (RFC 8215), in the layouts of RFC 6052 for /96, /48, /56 and /64.
        [0x64, 0xff9b, 1, ..] => vec![v4(12, 13, 14, 15), v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12)],
        // 6to4 (RFC 3056).
        [0x2002, ..] => vec![v4(2, 3, 4, 5)],
        // Teredo (RFC 4380): the server, and the client with all bits flipped.
        [0x2001, 0, ..] => vec![v4(4, 5, 6, 7), Ipv4Addr::new(!o[12], !o[13], !o[14], !o[15])],
        // ISATAP (RFC 5214), below any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![v4(12, 13, 14, 15)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn embedded_address_has_the_same_class(bits: u32, rest: u64) {
            let v4 = Ipv4Addr::from_bits(bits);
            let class = AddressClass::of(v4.into());
            let wide = u128::from(bits);
            let wrapped = |bits: u128| AddressClass::of(Ipv6Addr::from_bits(bits).into());
            prop_assert_eq!(wrapped((0xffff << 32) | wide), class, "mapped");
            prop_assert_eq!(wrapped((0x64_ff9b << 96) | wide), class, "NAT64");
            prop_assert_eq!(wrapped((0x2002 << 112) | (wide << 80) | u128::from(rest)), class, "6to4");
            if bits > 1 {
                prop_assert_eq!(wrapped(wide), class, "compatible");
            }
            let inverted = u128::from(!bits);
            let teredo = |server: u32| (0x2001_0000 << 96) | (u128::from(server) << 64) | inverted;
            prop_assert!(wrapped(teredo(0x0101_0101)) == class, "Teredo");
            prop_assert!(wrapped((0x2606_4700 << 96) | (0x5efe << 32) | wide) >= class, "ISATAP");
            let local = wrapped((0x64_ff9b_0001 << 80) | wide);
            prop_assert!(class == AddressClass::Unreachable || local >= class, "local NAT64");
        }

        #[test]
        fn public_addresses_are_globally_reachable(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            if AddressClass::of(address.into()) == AddressClass::Public && embedded_v4(address).is_empty() {
                prop_assert_eq!(bits >> 125, 1, "2000::/3");
            }
        }
    }
}
