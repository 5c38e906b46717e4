//! Connections to a checked host for code that does not use the HTTP client.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use url::Host;

use crate::resolver::resolve_permitted;
use crate::{Lookup, NetError, NetPolicy, PolicyHandle, Trust};

/// Future of a new connection.
pub type ConnectFuture = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Opens a connection to a checked address; tests redirect it.
pub trait Connect: Send + Sync + 'static {
    fn connect(&self, address: SocketAddr) -> ConnectFuture;
}

/// TCP connections of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemConnect;

impl Connect for SystemConnect {
    fn connect(&self, address: SocketAddr) -> ConnectFuture {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

/// Connector that applies the active policy: one lookup, and only addresses that passed.
pub(crate) struct Dialer {
    pub(crate) policy: PolicyHandle,
    pub(crate) trust: Trust,
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) connect: Arc<dyn Connect>,
    /// Time limit for all addresses of a name together.
    pub(crate) connect_timeout: Duration,
}

/// Connection with its address and the policy under which it was opened.
pub(crate) struct DialedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) address: IpAddr,
    pub(crate) policy: Arc<NetPolicy>,
}

impl Dialer {
    pub(crate) async fn dial(&self, host: &Host, port: u16) -> Result<DialedConnection, NetError> {
        let policy = self.policy.current();
        policy.check_target(host, port, self.trust)?;
        let addresses = match host {
            Host::Domain(name) => resolve_permitted(&policy, self.trust, self.lookup.as_ref(), name).await?,
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
        };
        let name = host.to_string();
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let share = self.connect_timeout / count;
        let mut failure = NetError::Timeout { host: name.clone() };
        for address in addresses {
            let connecting = self.connect.connect(SocketAddr::new(address, port));
            match tokio::time::timeout(share, connecting).await {
                Ok(Ok(stream)) => return Ok(DialedConnection { stream, address, policy }),
                Ok(Err(error)) => failure = NetError::Connect { host: name.clone(), source: Arc::new(error) },
                Err(_) => {}
            }
        }
        Err(failure)
    }
}
