//! Runner for the attempts in [`rows`], with both trust levels through the guarded client and the filtering proxy.
//! Nothing leaves the machine: names resolve to the addresses in the row, and the proxy's connections all lead to a
//! test server that records their intended destination.

pub(crate) mod rows;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_base::Entropy;
use agentd_net::{
    AddressClass, Connect, ConnectFuture, FilteringProxy, GuardedClient, Lookup, LookupFuture, NetError, PolicyHandle,
    ProxyListener, ProxyOptions, Trust,
};
use http::Method;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use url::Url;

use rows::{Kind, ROWS, Row};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    Closed,
    /// Neither a response from the intended destination nor a refusal before a connection was opened.
    Leak,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Open => "open",
            Self::Closed => "refused",
            Self::Leak => "LEAK",
        })
    }
}

/// Returns the verdict of the default policy.
pub(crate) fn expected(kind: Kind, trust: Trust) -> Verdict {
    use AddressClass::{LinkLocal, Loopback, Metadata, Private, Public, Unreachable};
    match (kind, trust) {
        (Kind::Leads(Public), _) => Verdict::Open,
        (Kind::Leads(Private | Loopback) | Kind::OtherProtocol, Trust::Owner) => Verdict::Open,
        (Kind::Leads(Private | Loopback) | Kind::OtherProtocol, Trust::Untrusted) => Verdict::Closed,
        (Kind::Leads(LinkLocal | Metadata | Unreachable) | Kind::Nonsense, _) => Verdict::Closed,
    }
}

/// Result of one attempt.
pub(crate) struct Outcome {
    pub(crate) row: &'static Row,
    pub(crate) trust: Trust,
    pub(crate) through: &'static str,
    pub(crate) expected: Verdict,
    pub(crate) got: Verdict,
}

impl Outcome {
    pub(crate) fn is_miss(&self) -> bool {
        self.expected != self.got
    }
}

/// Lookup that answers the n-th call with the n-th list, repeating the last one.
struct ScriptedLookup {
    answers: &'static [&'static [&'static str]],
    calls: AtomicUsize,
}

impl Lookup for ScriptedLookup {
    fn lookup(&self, _host: &str) -> LookupFuture {
        let call = self.calls.fetch_add(1, Ordering::SeqCst).min(self.answers.len().saturating_sub(1));
        let answer: Vec<IpAddr> =
            self.answers.get(call).into_iter().copied().flatten().filter_map(|text| text.parse().ok()).collect();
        Box::pin(async move { Ok(answer) })
    }
}

fn scripted_lookup(row: &'static Row) -> Arc<ScriptedLookup> {
    Arc::new(ScriptedLookup { answers: row.answers, calls: AtomicUsize::new(0) })
}

/// Connector that leads every connection to the test server.
struct RedirectedConnect {
    server: SocketAddr,
    wanted: std::sync::Mutex<Vec<SocketAddr>>,
}

impl Connect for RedirectedConnect {
    fn connect(&self, address: SocketAddr) -> ConnectFuture {
        if let Ok(mut wanted) = self.wanted.lock() {
            wanted.push(address);
        }
        let server = self.server;
        Box::pin(TcpStream::connect(server))
    }
}

/// Starts a server that answers every request with 200.
async fn server() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                    line.clear();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await
            });
        }
    });
    Ok(address)
}

/// Runs every row in every way.
///
/// # Errors
/// Returns errors of the test setup.
pub(crate) async fn run(folder: &Path) -> Result<Vec<Outcome>, Box<dyn std::error::Error>> {
    let server = server().await?;
    let mut outcomes = Vec::new();
    for row in ROWS {
        for trust in [Trust::Untrusted, Trust::Owner] {
            let expected = expected(row.kind, trust);
            let mut note = |through, got| outcomes.push(Outcome { row, trust, through, expected, got });
            note("client", through_client(row, trust).await);
            let url = Url::parse(row.url).ok();
            for (through, request, as_written) in requests(row, url.as_ref()) {
                let got = through_proxy(row, trust, &request, server, folder).await?;
                // The form that a browser or a library sends must succeed; a form written by hand may be refused for
                // its syntax.
                let got =
                    if as_written && expected == Verdict::Open && got == Verdict::Closed { expected } else { got };
                note(through, got);
            }
        }
    }
    Ok(outcomes)
}

async fn through_client(row: &'static Row, trust: Trust) -> Verdict {
    let Ok(url) = Url::parse(row.url) else { return Verdict::Closed };
    let client = || GuardedClient::with_lookup(PolicyHandle::default(), trust, scripted_lookup(row));
    match client().resolve(&url).await {
        Ok(addresses) => verdict_on(&addresses, trust),
        Err(error) if !error.is_refusal() => Verdict::Leak,
        Err(reason) => {
            // The check was negative; the request must fail too, in the client and in its inner client.
            let sent = match client().request(Method::GET, url.clone()) {
                Ok(request) => request.send().await.err(),
                Err(error) => Some(error),
            };
            let is_of_address = matches!(reason, NetError::Refused { .. });
            let inside = match client().inner() {
                Ok(inner) if is_of_address => inner.get(url).send().await.err(),
                _ => None,
            };
            let inside = inside.map(|error| NetError::from_reqwest("", error));
            let is_refused = |error: &Option<NetError>| error.as_ref().is_some_and(NetError::is_refusal);
            if is_refused(&sent) && (is_refused(&inside) || !is_of_address) { Verdict::Closed } else { Verdict::Leak }
        }
    }
}

/// Returns the verdict for a successful resolution by its addresses.
fn verdict_on(addresses: &[IpAddr], trust: Trust) -> Verdict {
    let fits = |address: &IpAddr| match AddressClass::of(*address) {
        AddressClass::Public => true,
        AddressClass::Private | AddressClass::Loopback => trust == Trust::Owner,
        _ => false,
    };
    if !addresses.is_empty() && addresses.iter().all(fits) { Verdict::Open } else { Verdict::Leak }
}

/// Returns the proxy requests for a row: as written, and as a URL parser would send it.
fn requests(row: &Row, url: Option<&Url>) -> Vec<(&'static str, String, bool)> {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: elsewhere.example\r\nconnection: close\r\n\r\n");
    let connect = |target: &str| format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
    let mut requests = Vec::new();
    let is_https = row.url.starts_with("https:");
    if !is_https {
        requests.push(("proxy, raw GET", get(row.url), true));
    }
    let has_our_scheme = url.is_none_or(|url| matches!(url.scheme(), "http" | "https"));
    if let Some((_, rest)) = row.url.split_once("://").filter(|_| has_our_scheme) {
        let authority = rest.split('/').next().unwrap_or_default();
        let port =
            authority.rsplit(':').next().filter(|port| port.parse::<u32>().is_ok() && port.len() < authority.len());
        let target = match port {
            Some(_) => authority.to_owned(),
            None => format!("{authority}:{}", if is_https { 443 } else { 80 }),
        };
        requests.push(("proxy, raw CONNECT", connect(&target), true));
    }
    if let Some(url) = url.filter(|_| has_our_scheme) {
        if !is_https {
            requests.push(("proxy, GET", get(url.as_str()), false));
        }
        let target =
            format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
        requests.push(("proxy, CONNECT", connect(&target), false));
    }
    requests
}

async fn through_proxy(
    row: &'static Row,
    trust: Trust,
    request: &str,
    server: SocketAddr,
    folder: &Path,
) -> Result<Verdict, Box<dyn std::error::Error>> {
    let path = folder.join("proxy.sock");
    let detour = Arc::new(RedirectedConnect { server, wanted: std::sync::Mutex::default() });
    let options = ProxyOptions {
        lookup: scripted_lookup(row),
        connect: Arc::clone(&detour) as Arc<dyn Connect>,
        ..ProxyOptions::new(PolicyHandle::default(), trust)
    };
    let listener = ProxyListener::Unix { path: path.clone(), owner: None };
    let proxy = FilteringProxy::start(&listener, options, &Entropy::seeded(1))?;
    let mut stream = BufReader::new(UnixStream::connect(&path).await?);
    stream.write_all(request.as_bytes()).await?;
    let mut status = String::new();
    stream.read_line(&mut status).await?;
    let is_success = status.starts_with("HTTP/1.1 200 ");
    let is_refusal = status.starts_with("HTTP/1.1 40");
    drop(stream);
    proxy.shutdown().await;
    let wanted: Vec<IpAddr> = detour.wanted.lock().map_err(|_| "poisoned")?.iter().map(SocketAddr::ip).collect();
    Ok(match (is_success, wanted.is_empty()) {
        (true, false) => verdict_on(&wanted, trust),
        (false, true) if is_refusal => Verdict::Closed,
        _ => Verdict::Leak,
    })
}
