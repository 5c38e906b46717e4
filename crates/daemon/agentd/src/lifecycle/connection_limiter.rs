//! Limits on connections in total and per peer, so that one peer cannot use up all of them.
//!
//! Loopback and trusted proxies, which represent many clients, have no limit per peer. IPv6 peers are counted by their
//! /64 network, which is what one customer usually gets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use agentd_web::TrustedProxies;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections per peer. It is enough for an office behind one address.
const MAX_PER_PEER: usize = 256;
/// Divisor for the share of one peer when few connections are allowed.
const PEER_SHARE_DIVISOR: usize = 4;

#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    permits: Arc<Semaphore>,
    max_per_peer: usize,
    trusted: TrustedProxies,
    /// Number of connections by peer. It has at most as many entries as there are connections.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Counts a connection of a peer until dropped.
#[derive(Debug)]
pub(super) struct PeerPermit(Option<(Arc<ConnectionLimiter>, IpAddr)>);

impl ConnectionLimiter {
    pub(super) fn new(permits: usize, trusted: TrustedProxies) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            max_per_peer: (permits / PEER_SHARE_DIVISOR).clamp(1, MAX_PER_PEER),
            trusted,
            peers: Mutex::default(),
        }
    }

    /// Waits for a permit to accept one more connection.
    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Counts a connection of a peer; `None` if the peer has too many.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<PeerPermit> {
        let peer = peer.to_canonical();
        if peer.is_loopback() || self.trusted.contains(peer) {
            return Some(PeerPermit(None));
        }
        let peer = peer_key(peer);
        let mut peers = self.peers.lock();
        let count = peers.entry(peer).or_default();
        if *count >= self.max_per_peer {
            return None;
        }
        *count += 1;
        Some(PeerPermit(Some((Arc::clone(self), peer))))
    }
}

fn peer_key(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let Some((limiter, peer)) = self.0.take() else { return };
        if let Entry::Occupied(mut entry) = limiter.peers.lock().entry(peer) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(permits: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter::new(permits, TrustedProxies::parse(["10.0.0.0/8"]).unwrap()))
    }

    fn admit(limiter: &Arc<ConnectionLimiter>, peer: &str) -> Option<PeerPermit> {
        limiter.admit(peer.parse().unwrap())
    }

    #[test]
    fn one_peer_cannot_use_all_connections() {
        let limiter = limiter(40);
        let mut held: Vec<_> = (0..10).map(|_| admit(&limiter, "192.0.2.1").expect("below its share")).collect();
        assert!(admit(&limiter, "192.0.2.1").is_none());
        assert!(admit(&limiter, "::ffff:192.0.2.1").is_none(), "the same peer as an IPv4-mapped address");
        assert!(admit(&limiter, "192.0.2.2").is_some());
        held.pop();
        held.push(admit(&limiter, "192.0.2.1").expect("one has ended"));
        drop(held);
        assert!(limiter.peers.lock().is_empty());
    }

    #[test]
    fn ipv6_network_counts_as_one_peer() {
        let limiter = limiter(4);
        let _held = admit(&limiter, "2001:db8::1").unwrap();
        assert!(admit(&limiter, "2001:db8::2").is_none());
        assert!(admit(&limiter, "2001:db8:0:1::1").is_some());
    }

    #[test]
    fn loopback_and_trusted_proxies_have_no_limit() {
        let limiter = limiter(4);
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3"] {
            let held: Vec<_> = (0..1000).map(|_| admit(&limiter, peer)).collect();
            assert!(held.iter().all(Option::is_some), "{peer}");
        }
    }

    #[tokio::test]
    async fn permits_are_released_on_drop() {
        let limiter = limiter(1);
        let permit = limiter.acquire().await;
        assert!(futures_util::FutureExt::now_or_never(limiter.acquire()).is_none());
        drop(permit);
        assert!(limiter.acquire().await.is_some());
    }
}
