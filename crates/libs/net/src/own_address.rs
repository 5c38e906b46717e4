//! Whether an address is one of this machine's own. A machine reaches its own public address
//! without leaving itself, behind every firewall in front of it, so for what others can steer it
//! counts as loopback.
//!
//! Deliberately absent: an address that a router in front translates back to this machine. That
//! cannot be seen from here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Asks the routing table. Connecting a datagram socket sends nothing; it only picks the source
/// address, and the way to an own address starts at that address. Without a route the answer is no.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        // Any port will do; this one is the discard service's.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_is_what_the_machine_reaches_without_leaving() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own(Ipv4Addr::new(127, 0, 0, 1).into()));
        assert!(!is_own(Ipv4Addr::new(1, 1, 1, 1).into()));
        assert!(!is_own("2606:4700:4700::1111".parse().unwrap()));
    }
}
