//! How many connections there may be, in all and from one peer, so that no single one takes every
//! place.
//!
//! This machine and trusted proxies, which stand for many, are not limited. IPv6 peers count by
//! their /64, which is what one customer gets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use agentd_web::TrustedProxies;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// No browser and no agent needs more; a whole office behind one address has enough.
const MAX_OF_A_PEER: usize = 256;
/// With few connections allowed, a peer gets this share of them.
const SHARE_OF_A_PEER: usize = 4;

#[derive(Debug)]
pub(super) struct PeerGate {
    places: Arc<Semaphore>,
    max_of_a_peer: usize,
    trusted: TrustedProxies,
    /// Never more entries than connections are allowed.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(super) struct Admitted(Option<(Arc<PeerGate>, IpAddr)>);

impl PeerGate {
    pub(super) fn new(places: usize, trusted: TrustedProxies) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            max_of_a_peer: (places / SHARE_OF_A_PEER).clamp(1, MAX_OF_A_PEER),
            trusted,
            peers: Mutex::default(),
        }
    }

    /// Waits until one more connection may be accepted.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// `None` when this peer has too many connections already.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Admitted> {
        let peer = peer.to_canonical();
        if peer.is_loopback() || self.trusted.contains(peer) {
            return Some(Admitted(None));
        }
        let peer = counted_as(peer);
        let mut peers = self.peers.lock();
        let count = peers.entry(peer).or_default();
        if *count >= self.max_of_a_peer {
            return None;
        }
        *count += 1;
        Some(Admitted(Some((Arc::clone(self), peer))))
    }
}

fn counted_as(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some((gate, peer)) = self.0.take() else { return };
        if let Entry::Occupied(mut entry) = gate.peers.lock().entry(peer) {
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

    fn gate(places: usize) -> Arc<PeerGate> {
        Arc::new(PeerGate::new(places, TrustedProxies::parse(["10.0.0.0/8"]).unwrap()))
    }

    fn admit(gate: &Arc<PeerGate>, peer: &str) -> Option<Admitted> {
        gate.admit(peer.parse().unwrap())
    }

    #[test]
    fn one_peer_cannot_take_every_place() {
        let gate = gate(40);
        let mut held: Vec<_> = (0..10).map(|_| admit(&gate, "192.0.2.1").expect("below its share")).collect();
        assert!(admit(&gate, "192.0.2.1").is_none());
        assert!(admit(&gate, "::ffff:192.0.2.1").is_none(), "the same peer by its other name");
        assert!(admit(&gate, "192.0.2.2").is_some());
        held.pop();
        held.push(admit(&gate, "192.0.2.1").expect("one has ended"));
        drop(held);
        assert!(gate.peers.lock().is_empty());
    }

    #[test]
    fn an_ipv6_network_is_one_peer() {
        let gate = gate(4);
        let _held = admit(&gate, "2001:db8::1").unwrap();
        assert!(admit(&gate, "2001:db8::2").is_none());
        assert!(admit(&gate, "2001:db8:0:1::1").is_some());
    }

    #[test]
    fn this_machine_and_trusted_proxies_are_not_limited() {
        let gate = gate(4);
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3"] {
            let held: Vec<_> = (0..1000).map(|_| admit(&gate, peer)).collect();
            assert!(held.iter().all(Option::is_some), "{peer}");
        }
    }

    #[tokio::test]
    async fn places_are_given_back() {
        let gate = gate(1);
        let place = gate.place().await;
        assert!(futures_util::FutureExt::now_or_never(gate.place()).is_none());
        drop(place);
        assert!(gate.place().await.is_some());
    }
}
