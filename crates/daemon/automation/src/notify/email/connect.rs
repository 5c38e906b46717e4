//! Name resolution and connection to a resolve_permitted address of the mail server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentd_net::{Lookup, NetError, NetPolicy, Trust};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::EmailError;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of each connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 8;

pub(super) async fn connect(
    policy: &NetPolicy,
    lookup: &dyn Lookup,
    (host, port): (&str, u16),
    deadline: Instant,
) -> Result<TcpStream, EmailError> {
    let dialing = async {
        let addresses = resolve_permitted(policy, lookup, host).await?;
        dial(host, port, &addresses).await
    };
    let dialed = timeout_at(deadline, dialing).await;
    let dialed = dialed.unwrap_or_else(|_| Err(NetError::Timeout { host: host.to_owned() }));
    dialed.map_err(|error| if error.is_refusal() { EmailError::Refused(error) } else { EmailError::Unreachable(error) })
}

/// Resolves `host` and returns the resolve_permitted addresses, at least one.
async fn resolve_permitted(policy: &NetPolicy, lookup: &dyn Lookup, host: &str) -> Result<Vec<IpAddr>, NetError> {
    if let Ok(literal) = host.parse::<IpAddr>() {
        policy.check_address(host, literal, Trust::Owner)?;
        return Ok(vec![literal]);
    }
    policy.check_name(host, Trust::Owner)?;
    let unresolved = |error| NetError::Resolve { host: host.to_owned(), source: Arc::new(error) };
    let found = timeout(LOOKUP_TIMEOUT, lookup.lookup(host)).await;
    let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(unresolved)?;
    let mut refusal = None;
    let mut passed = Vec::new();
    for address in found {
        match policy.check_address(host, address, Trust::Owner) {
            Ok(()) if passed.len() < MAX_ADDRESSES => passed.push(address),
            Ok(()) => {}
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        _ if !passed.is_empty() => Ok(passed),
        Some(refusal) => Err(refusal),
        None => Err(unresolved(io::ErrorKind::NotFound.into())),
    }
}

async fn dial(host: &str, port: u16, addresses: &[IpAddr]) -> Result<TcpStream, NetError> {
    let mut failure = NetError::Timeout { host: host.to_owned() };
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => {
                // Commands are short, and each waits for its reply.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "failed to set TCP_NODELAY for mail server connection");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => failure = NetError::Connect { host: host.to_owned(), source: Arc::new(error) },
            Err(_) => failure = NetError::Timeout { host: host.to_owned() },
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use agentd_net::LookupFuture;

    use super::*;

    struct Fixed(Vec<&'static str>);

    impl Lookup for Fixed {
        fn lookup(&self, _host: &str) -> LookupFuture {
            let found = self.0.iter().map(|text| text.parse().unwrap()).collect();
            Box::pin(async move { Ok(found) })
        }
    }

    async fn addresses(host: &str, found: &[&'static str]) -> Result<Vec<String>, NetError> {
        let policy = NetPolicy { blocked_hosts: vec!["192.0.3.0/24".parse().unwrap()], ..NetPolicy::default() };
        let passed = resolve_permitted(&policy, &Fixed(found.to_vec()), host).await?;
        Ok(passed.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn only_permitted_addresses_are_tried() {
        // The owner's server may have a private address, but not that of a cloud metadata service.
        let mixed = ["169.254.169.254", "10.0.0.5", "192.0.3.1", "127.0.0.1"];
        assert_eq!(addresses("mail.example.org", &mixed).await.unwrap(), ["10.0.0.5", "127.0.0.1"]);
        for (host, found) in [
            ("mail.example.org", vec!["169.254.169.254"]),
            ("mail.example.org", vec!["192.0.3.9"]),
            ("metadata.google.internal", vec!["10.0.0.5"]),
            ("169.254.169.254", vec![]),
            ("fe80::1", vec![]),
            ("0.0.0.0", vec![]),
        ] {
            assert!(addresses(host, &found).await.unwrap_err().is_refusal(), "{host} {found:?}");
        }
        assert!(matches!(addresses("mail.example.org", &[]).await, Err(NetError::Resolve { .. })));
        assert_eq!(addresses("mail.example.org", &["10.0.0.1"; 50]).await.unwrap().len(), MAX_ADDRESSES);
    }
}
