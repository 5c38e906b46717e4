//! Simulated network around the browser: names, public machines, and canaries on this machine.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_net::{AddressClass, Connect, ConnectFuture, Lookup, LookupFuture, NetError, ProxyObserver, SystemConnect};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UdpSocket};

use crate::Outcome;

/// Public machines with the pages of the attempts.
const PUBLIC: [&str; 2] = ["93.184.216.34", "93.184.216.35"];
const NAMES: &[(&str, &str)] = &[
    ("site.example", PUBLIC[0]),
    ("other.example", PUBLIC[1]),
    ("localhost", "127.0.0.1"),
    ("site.localhost", "127.0.0.1"),
    ("loopback.example", "127.0.0.1"),
    ("loopback6.example", "::1"),
    ("inside.example", "10.0.0.1"),
    ("metadata.example", "169.254.169.254"),
    ("metadata.google.internal", "169.254.169.254"),
];

/// Observations, by the port of the attempt.
#[derive(Debug, Default)]
pub(super) struct Seen {
    state: Mutex<State>,
    /// Actual address of the pages of public machines.
    pages: Mutex<Option<SocketAddr>>,
}

#[derive(Debug, Default)]
struct State {
    arrived: BTreeMap<u16, String>,
    refused: BTreeMap<u16, String>,
    looked_up: BTreeSet<String>,
    rebound: HashSet<String>,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pages_are_at(&self, address: SocketAddr) {
        *self.pages.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// Returns the data that arrived at a canary, or passed the proxy's checks.
    #[must_use]
    pub(super) fn arrived(&self, port: u16) -> Option<String> {
        self.state().arrived.get(&port).cloned()
    }

    /// Returns the reason of a block by the proxy.
    #[must_use]
    pub(super) fn refused(&self, port: u16) -> Option<String> {
        self.state().refused.get(&port).cloned()
    }

    /// Returns the names that were resolved.
    #[must_use]
    pub(super) fn looked_up(&self) -> BTreeSet<String> {
        self.state().looked_up.clone()
    }

    fn arrives(&self, port: u16, what: String) {
        self.state().arrived.entry(port).or_insert(what);
    }

    /// Listens on every address of this machine, for TCP and UDP.
    pub(super) async fn canary(self: &Arc<Self>) -> Outcome<u16> {
        let (tcp, udp) = loop {
            // Without IPv6, nothing is reachable over it.
            let tcp = match TcpListener::bind("[::]:0").await {
                Ok(tcp) => tcp,
                Err(_) => TcpListener::bind("0.0.0.0:0").await?,
            };
            let address = tcp.local_addr()?;
            match UdpSocket::bind(address).await {
                Ok(udp) => break (tcp, udp),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error.into()),
            }
        };
        let port = tcp.local_addr()?.port();
        let (for_tcp, for_udp) = (Arc::clone(self), Arc::clone(self));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = tcp.accept().await {
                let local = client.local_addr().map(|address| address.to_string()).unwrap_or_default();
                for_tcp.arrives(port, format!("a connection to {local}"));
                let mut piece = [0; 64];
                let _ = client.read(&mut piece).await;
            }
        });
        tokio::spawn(async move {
            let mut piece = [0; 64];
            while let Ok((_, from)) = udp.recv_from(&mut piece).await {
                for_udp.arrives(port, format!("a packet of {from}"));
            }
        });
        Ok(port)
    }
}

/// Names and machines of the network, used by the proxy.
#[derive(Debug, Clone)]
pub(super) struct Network(pub(super) Arc<Seen>);

impl Lookup for Network {
    fn lookup(&self, host: &str) -> LookupFuture {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let mut state = self.0.state();
        // The number of requests is bounded by the attempts.
        state.looked_up.insert(host.clone());
        let found: Vec<&str> = match &*host {
            "mixed.example" => vec![PUBLIC[0], "127.0.0.1"],
            // Public on the first lookup, private afterwards.
            "rebinding.example" if state.rebound.insert(host.clone()) => vec![PUBLIC[0]],
            "rebinding.example" => vec!["127.0.0.1"],
            _ => NAMES.iter().filter(|(name, _)| *name == host).map(|(_, address)| *address).collect(),
        };
        let found = found.into_iter().filter_map(|address| address.parse().ok()).collect();
        Box::pin(async move { Ok(found) })
    }
}

impl Connect for Network {
    fn connect(&self, address: SocketAddr) -> ConnectFuture {
        let is_public = PUBLIC.iter().any(|public| public.parse::<IpAddr>().is_ok_and(|public| public == address.ip()));
        if is_public {
            let pages = *self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
            return SystemConnect.connect(pages.unwrap_or(address));
        }
        // Every address that passes the proxy must be public.
        if AddressClass::of(address.ip()) != AddressClass::Public {
            self.0.arrives(address.port(), format!("a connection of the proxy to {address}"));
        }
        SystemConnect.connect(address)
    }
}

impl ProxyObserver for Network {
    fn refused(&self, host: &str, port: u16, reason: &NetError) {
        let mut state = self.0.state();
        state.refused.entry(port).or_insert_with(|| format!("{host}: {reason}"));
    }
}
