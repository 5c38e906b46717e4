//! Proxy with a client, a resolver and a server controlled by the tests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentd_base::Entropy;
use agentd_net::{
    FilteringProxy, Lookup, LookupFuture, NetError, NetPolicy, PolicyHandle, ProxyListener, ProxyObserver,
    ProxyOptions, Trust,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;

/// Known names and their addresses; other names do not exist.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) known: HashMap<&'static str, &'static str>,
    pub(crate) lookups: AtomicUsize,
}

impl Lookup for Names {
    fn lookup(&self, host: &str) -> LookupFuture {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let found: Vec<IpAddr> = self.known.get(host).iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(async move { Ok(found) })
    }
}

#[derive(Default)]
pub(crate) struct Refusals(pub(crate) Mutex<Vec<String>>);

impl ProxyObserver for Refusals {
    fn refused(&self, host: &str, port: u16, reason: &NetError) {
        self.0.lock().unwrap().push(format!("{host}:{port} {reason}"));
    }
}

pub(crate) struct Bench {
    pub(crate) proxy: FilteringProxy,
    pub(crate) policy: PolicyHandle,
    pub(crate) heard: Arc<Refusals>,
    pub(crate) names: Arc<Names>,
    pub(crate) path: PathBuf,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn start(trust: Trust) -> Self {
        Self::start_with(trust, |_| {})
    }

    /// Starts a proxy; `local.example` and `other.example` are on loopback, `inside.example` is private.
    pub(crate) fn start_with(trust: Trust, change: impl FnOnce(&mut ProxyOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy.sock");
        let known = [("local.example", "127.0.0.1"), ("other.example", "127.0.0.1"), ("inside.example", "10.0.0.5")];
        let names = Arc::new(Names { known: known.into(), ..Names::default() });
        let (policy, heard) = (PolicyHandle::default(), Arc::new(Refusals::default()));
        let mut options = ProxyOptions {
            lookup: Arc::clone(&names) as Arc<dyn Lookup>,
            observer: Some(Arc::clone(&heard) as Arc<dyn ProxyObserver>),
            ..ProxyOptions::new(policy.clone(), trust)
        };
        change(&mut options);
        let listener = ProxyListener::Unix { path: path.clone(), owner: None };
        let proxy = FilteringProxy::start(&listener, options, &Entropy::seeded(7)).unwrap();
        Self { proxy, policy, heard, names, path, folder }
    }

    pub(crate) async fn client(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.unwrap()
    }

    /// Sends `request` and reads until the proxy closes.
    pub(crate) async fn ask(&self, request: &str) -> String {
        ask(self.client().await, request).await
    }

    /// Opens a tunnel to `target`.
    pub(crate) async fn tunnel(&self, target: &str) -> UnixStream {
        let mut client = self.client().await;
        client.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let head = read_head(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        client
    }

    pub(crate) fn block(&self, hosts: &[&str]) {
        let blocked_hosts = hosts.iter().map(|text| text.parse().unwrap()).collect();
        self.policy.set(NetPolicy { blocked_hosts, ..NetPolicy::default() });
    }
}

pub(crate) async fn ask<S: AsyncReadExt + AsyncWriteExt + Unpin>(mut client: S, request: &str) -> String {
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset connection still has returned a response.
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads up to the empty line.
pub(crate) async fn read_head<S: AsyncReadExt + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Starts a server that echoes all data.
pub(crate) async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    port
}

/// Starts a server that passes each request head to the test, responds with `answer`, and closes when its client does.
pub(crate) async fn serve(answer: &'static str) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heads, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer_one(stream, answer, heads.clone()));
        }
    });
    (port, heard)
}

async fn answer_one(mut stream: TcpStream, answer: &'static str, heads: mpsc::UnboundedSender<String>) {
    let head = read_head(&mut stream).await;
    let mut sent = stream.write_all(answer.as_bytes()).await.is_ok();
    let _ = heads.send(head);
    let mut rest = [0; 1024];
    while sent {
        match stream.read(&mut rest).await {
            Ok(read) if read > 0 => sent = stream.write_all(&rest[..read]).await.is_ok(),
            _ => break,
        }
    }
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
