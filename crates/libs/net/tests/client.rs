//! Tests of the client with real sockets and a scripted resolver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_base::DomainError as _;
use agentd_net::{GuardedClient, Lookup, LookupFuture, NetError, NetPolicy, PolicyHandle, Trust};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

/// Lookup that answers the n-th call with the n-th list, repeating the last one.
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    calls: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|list| list.iter().map(|text| text.parse().unwrap()).collect()).collect();
        Arc::new(Self { answers, calls: AtomicUsize::new(0) })
    }
}

impl Lookup for Scripted {
    fn lookup(&self, _host: &str) -> LookupFuture {
        let call = self.calls.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let answer = self.answers[call].clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// Starts a loopback server that answers every request with `answer` and counts connections.
async fn serve(answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (port, connections)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn get(client: &GuardedClient, url: &str) -> Result<String, NetError> {
    let response = client.request(Method::GET, Url::parse(url).unwrap())?.send().await?;
    Ok(format!("{} {}", response.status().as_u16(), response.text().await.unwrap()))
}

#[tokio::test]
async fn name_with_private_address_is_refused_only_to_untrusted_requests() {
    let (port, connections) = serve(OK).await;
    let url = format!("http://rebound.example:{port}/path?token=abc");
    let lookup = Scripted::new(&[&["127.0.0.1"]]);
    let steered = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Untrusted, lookup.clone());
    let error = get(&steered, &url).await.unwrap_err();
    assert!(matches!(&error, NetError::Refused { host, .. } if host == "rebound.example"), "{error:?}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    let owner = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, lookup);
    assert_eq!(get(&owner, &url).await.unwrap(), "200 ok");
}

#[tokio::test]
async fn only_permitted_addresses_of_a_name_are_connected_to() {
    let (port, _) = serve(OK).await;
    let lookup = Scripted::new(&[&["169.254.169.254", "127.0.0.1"]]);
    let client = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, lookup);
    assert_eq!(get(&client, &format!("http://two.example:{port}/")).await.unwrap(), "200 ok");
}

#[tokio::test]
async fn name_is_resolved_once_per_connection() {
    let (port, _) = serve(OK).await;
    let lookup = Scripted::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, lookup.clone());
    assert_eq!(get(&client, &format!("http://flip.example:{port}/")).await.unwrap(), "200 ok");
    assert_eq!(lookup.calls.load(Ordering::SeqCst), 1, "checked and connected with one answer");
}

#[tokio::test]
async fn policy_change_closes_idle_connections() {
    let (port, connections) = serve(OK).await;
    let policy = PolicyHandle::default();
    let lookup = Scripted::new(&[&["127.0.0.1"]]);
    let client = GuardedClient::with_lookup(policy.clone(), Trust::Owner, lookup);
    let url = format!("http://api.example:{port}/");
    assert!(get(&client, &url).await.is_ok() && get(&client, &url).await.is_ok());
    assert_eq!(connections.load(Ordering::SeqCst), 1, "the connection is kept");
    let blocked = vec!["127.0.0.0/8".parse().unwrap()];
    policy.set(NetPolicy { blocked_hosts: blocked, ..NetPolicy::default() });
    assert!(matches!(get(&client, &url).await, Err(NetError::Blocked { .. })));
    policy.set(NetPolicy::default());
    assert!(get(&client, &url).await.is_ok());
}

#[tokio::test]
async fn redirects_are_returned_as_responses() {
    let (port, _) = serve("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n").await;
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Owner);
    assert_eq!(get(&client, &format!("http://127.0.0.1:{port}/")).await.unwrap(), "302 ");
}

#[tokio::test]
async fn errors_name_only_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, Scripted::new(&[&["127.0.0.1"]]));
    let error = get(&client, &format!("http://down.example:{port}/hidden?key=abc")).await.unwrap_err();
    assert!(matches!(error, NetError::Connect { .. }), "{error:?}");
    let nowhere = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, Scripted::new(&[&[]]));
    let unresolved = get(&nowhere, "http://nowhere.example/hidden?key=abc").await.unwrap_err();
    assert!(matches!(unresolved, NetError::Resolve { .. }), "{unresolved:?}");
    for error in [error, unresolved] {
        let mut text = format!("{error:?} {error}");
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text.push_str(&inner.to_string());
            source = inner.source();
        }
        assert!(text.contains(".example") && !text.contains("hidden") && !text.contains("abc"), "{text}");
    }
}

#[tokio::test]
async fn certificate_error_is_reported() {
    let made = rcgen::generate_simple_self_signed(vec!["self-signed.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            // The handshake fails: the client refuses the certificate.
            let _ = acceptor.accept(socket).await;
        }
    });
    let client = GuardedClient::with_lookup(PolicyHandle::default(), Trust::Owner, Scripted::new(&[&["127.0.0.1"]]));
    let sentence = "the certificate of self-signed.example was rejected: its issuer is not trusted by this machine";
    let error = get(&client, &format!("https://self-signed.example:{port}/hidden")).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.code()), (sentence, "certificate_refused"));
    let url = Url::parse(&format!("wss://self-signed.example:{port}/hidden")).unwrap();
    let error = client.web_socket(&url, 1024).await.err().unwrap();
    assert_eq!((error.to_string().as_str(), error.code()), (sentence, "certificate_refused"));
}

/// Prints the cost of the first client; asserts nothing.
#[tokio::test]
#[ignore = "prints a measurement"]
#[allow(clippy::disallowed_methods, reason = "a stopwatch")]
async fn measure_first_client() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    };
    let measure = |what: &str, act: &dyn Fn()| {
        let (start, before) = (std::time::Instant::now(), resident());
        act();
        println!("{what}: {:?}, {} KiB", start.elapsed(), resident() - before);
    };
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Owner);
    let first = |url: &str| drop(client.request(Method::GET, Url::parse(url).unwrap()).unwrap());
    measure("first plain request", &|| first("http://127.0.0.1/"));
    measure("first secure request", &|| first("https://127.0.0.1/"));
}
