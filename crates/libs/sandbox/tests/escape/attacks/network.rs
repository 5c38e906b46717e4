//! Attacks on network services.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::FromRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use super::{Reached, Target, note};

pub(super) fn tcp(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let wait = Duration::from_secs(1);
    for address in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, target.tcp_port)),
        SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, target.tcp_port)),
        SocketAddr::from(([169, 254, 169, 254], 80)),
        SocketAddr::from(([1, 1, 1, 1], 443)),
    ] {
        note(&mut reached, address.to_string(), TcpStream::connect_timeout(&address, wait).is_ok());
    }
    reached
}

pub(super) fn udp(target: &Target) -> Reached {
    let mut reached = Vec::new();
    if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
        // The suite checks whether this datagram arrives; the private loopback accepts it too.
        let _ = socket.send_to(b"escaped", (Ipv4Addr::LOCALHOST, target.udp_port));
        for address in [SocketAddr::from(([8, 8, 8, 8], 53)), SocketAddr::from(([169, 254, 169, 254], 53))] {
            note(&mut reached, address.to_string(), socket.send_to(b"query", address).is_ok());
        }
    }
    use std::net::ToSocketAddrs;
    note(&mut reached, "resolved a name", ("example.com", 80).to_socket_addrs().is_ok());
    reached
}

pub(super) fn unix_sockets(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&target.abstract_socket).unwrap();
    note(&mut reached, "an abstract socket", UnixStream::connect_addr(&address).is_ok());
    note(&mut reached, "the daemon's socket", UnixStream::connect(&target.path_socket).is_ok());
    for path in ["/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/systemd/private"] {
        note(&mut reached, path, UnixStream::connect(path).is_ok());
    }
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let mut pair = [-1; 2];
        // SAFETY: the array lives through the call, and the descriptors are this process's own.
        let end = unsafe {
            if libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) != 0 {
                continue;
            }
            libc::close(pair[1]);
            UnixDatagram::from_raw_fd(pair[0])
        };
        note(&mut reached, format!("a datagram of kind {kind}"), end.send_to(b"x", &target.datagram_socket).is_ok());
    }
    reached
}

pub(super) fn unusual_families(_: &Target) -> Reached {
    let mut reached = Vec::new();
    for (name, family, kind) in [
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW),
        ("raw internet", libc::AF_INET, libc::SOCK_RAW),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW),
    ] {
        // SAFETY: plain numbers.
        note(
            &mut reached,
            name,
            unsafe { libc::socket(family, kind, libc::IPPROTO_ICMP * i32::from(family == libc::AF_INET)) } >= 0,
        );
    }
    reached
}
