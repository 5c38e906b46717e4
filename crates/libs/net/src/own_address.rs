//! Detection of this machine's own addresses. A machine reaches its own public address without leaving the host, behind
//! every firewall in front of it, so for untrusted requests it counts as loopback.
//!
//! Out of scope: an address that a router in front translates back to this machine, which cannot be detected here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether `address` belongs to this machine, according to the routing table. Connecting a datagram socket sends
/// nothing; it only selects the source address, which for an own address is the address itself. Returns false if there
/// is no route.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        // Any port works; this is the discard service's.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_detected() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own(Ipv4Addr::new(127, 0, 0, 1).into()));
        assert!(!is_own(Ipv4Addr::new(1, 1, 1, 1).into()));
        assert!(!is_own("2606:4700:4700::1111".parse().unwrap()));
    }
}
