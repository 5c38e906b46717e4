//! Proxy: all traffic uses it with the credential, and Chromium sends no requests of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use agentd_base::Secret;
use agentd_browser::{BrowserOptions, ProxyEndpoint};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{act, new_browser, options, run, try_act};

/// Requests to the proxy, with and without the credential.
#[derive(Debug, Default)]
struct ProxyLog {
    permitted: BTreeSet<String>,
    refused: BTreeSet<String>,
}

async fn proxy() -> (SocketAddr, Arc<Mutex<ProxyLog>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Arc::<Mutex<ProxyLog>>::default();
    let for_clients = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, Arc::clone(&for_clients)));
        }
    });
    (address, log)
}

async fn serve(mut client: TcpStream, log: Arc<Mutex<ProxyLog>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    // `user:secret`
    let permitted = head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=");
    {
        let mut log = log.lock();
        if permitted { &mut log.permitted } else { &mut log.refused }.insert(target.clone());
    }
    let (status, header) =
        if permitted { ("200 OK", "") } else { ("407 Authentication", "Proxy-Authenticate: Basic realm=\"x\"\r\n") };
    let body = format!(
        "<title>through</title><img src=http://127.0.0.1:8099/i><iframe src=http://[::1]:8099/f></iframe>{target}"
    );
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = client.write_all(answer.as_bytes()).await;
}

#[test]
fn all_traffic_uses_the_proxy_and_only_pages_send_requests() {
    run(async {
        let (address, log) = proxy().await;
        let credential = Some(("user".to_owned(), Secret::new("secret".to_owned())));
        let browser = new_browser(BrowserOptions { proxy: Some(ProxyEndpoint { address, credential }), ..options() });
        for _ in 0..2 {
            let context = browser.context().await.unwrap();
            let tab = context.open_tab().await.unwrap();
            let outcome =
                act(&tab, json!({"action": "goto", "url": "http://site.example/", "wait_until": "network_idle"})).await;
            assert_eq!(outcome.title, "through");
            // CONNECT: the proxy answers with a page, which is not TLS.
            let error = try_act(&tab, json!({"action": "goto", "url": "https://tls.example/"})).await.unwrap_err();
            assert_eq!(error.code(), "navigation_failed");
        }
        let log = log.lock();
        let expected = [
            "http://127.0.0.1:8099/i",
            "http://[::1]:8099/f",
            "http://proxy-credential.invalid/",
            "http://site.example/",
            "http://site.example/favicon.ico",
            "tls.example:443",
        ];
        let unexpected: Vec<_> = log.permitted.iter().filter(|url| !expected.contains(&url.as_str())).collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
        for url in expected.iter().filter(|url| !url.ends_with("favicon.ico")) {
            assert!(log.permitted.contains(*url), "{url} is not in {log:?}");
        }
        assert_eq!(log.refused.iter().collect::<Vec<_>>(), ["http://proxy-credential.invalid/"]);
    });
}

#[test]
fn rejected_proxy_credential_fails_the_context() {
    run(async {
        let (address, _) = proxy().await;
        let credential = Some(("user".to_owned(), Secret::new("wrong".to_owned())));
        let browser = new_browser(BrowserOptions { proxy: Some(ProxyEndpoint { address, credential }), ..options() });
        let error = browser.context().await.unwrap_err();
        assert_eq!(error.code(), "browser_unavailable");
        assert!(
            error.to_string().contains("rejected its credentials") && !error.to_string().contains("wrong"),
            "{error}"
        );
    });
}
