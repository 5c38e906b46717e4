//! WebSockets: the same checks as for every request, bounded messages, and the peer's close code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use agentd_net::{GuardedClient, Lookup, LookupFuture, NetError, NetPolicy, PolicyHandle, Trust, WebSocketEvent};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use url::Url;

const MAX_MESSAGE_BYTES: usize = 1024;

fn client(trust: Trust) -> GuardedClient {
    GuardedClient::new(PolicyHandle::default(), trust)
}

/// Lookup that resolves every name to this machine.
struct LoopbackLookup;

impl Lookup for LoopbackLookup {
    fn lookup(&self, _: &str) -> LookupFuture {
        Box::pin(async { Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]) })
    }
}

/// Starts a server that echoes messages until `end`, and then closes with 4004.
async fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { continue };
            tokio::spawn(async move {
                while let Some(Ok(message)) = socket.next().await {
                    let end = Message::Close(Some(CloseFrame { code: 4004.into(), reason: "".into() }));
                    let answer = if message == Message::text("end") { end } else { message };
                    let is_content = answer.is_text() || answer.is_close();
                    if is_content && socket.send(answer).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[tokio::test]
async fn messages_are_echoed_and_close_code_is_reported() {
    let url = url(&format!("ws://127.0.0.1:{}/a?b=c", echo().await));
    let mut socket = client(Trust::Owner).web_socket(&url, MAX_MESSAGE_BYTES).await.unwrap();
    socket.send("Hello".to_owned()).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Text("Hello".to_owned()));
    socket.ping().await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Alive);
    socket.send("end".to_owned()).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Closed(Some(4004)));
}

#[tokio::test]
async fn message_above_the_limit_is_rejected() {
    let url = url(&format!("ws://127.0.0.1:{}", echo().await));
    let mut socket = client(Trust::Owner).web_socket(&url, MAX_MESSAGE_BYTES).await.unwrap();
    socket.send("x".repeat(MAX_MESSAGE_BYTES + 1)).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::TooLarge);
}

#[tokio::test]
async fn forbidden_addresses_are_not_connected_to() {
    let port = echo().await;
    let literal = url(&format!("ws://127.0.0.1:{port}"));
    let refused = |result: Result<_, NetError>| result.map(|_| ()).unwrap_err().is_refusal();
    assert!(refused(client(Trust::Untrusted).web_socket(&literal, MAX_MESSAGE_BYTES).await));
    assert!(refused(client(Trust::Owner).with_trust(Trust::Untrusted).web_socket(&literal, MAX_MESSAGE_BYTES).await));
    let named = url(&format!("ws://inward.example:{port}"));
    let inward = |trust| GuardedClient::with_lookup(PolicyHandle::default(), trust, Arc::new(LoopbackLookup));
    assert!(refused(inward(Trust::Untrusted).web_socket(&named, MAX_MESSAGE_BYTES).await));
    assert!(inward(Trust::Owner).web_socket(&named, MAX_MESSAGE_BYTES).await.is_ok());
    let blocked = NetPolicy { blocked_hosts: vec!["inward.example".parse().unwrap()], ..NetPolicy::default() };
    let blocked = GuardedClient::with_lookup(PolicyHandle::new(blocked), Trust::Owner, Arc::new(LoopbackLookup));
    assert!(refused(blocked.web_socket(&named, MAX_MESSAGE_BYTES).await));
    for other in ["http://127.0.0.1", "ftp://127.0.0.1"] {
        assert!(refused(client(Trust::Owner).web_socket(&url(other), MAX_MESSAGE_BYTES).await), "{other}");
    }
}

#[tokio::test]
async fn errors_do_not_contain_the_path() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = url(&format!("ws://{}/t0ken?ticket=t0ken", listener.local_addr().unwrap()));
    let answering = async {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream
    };
    let client = client(Trust::Owner);
    let (refused, _stream) = tokio::join!(client.web_socket(&url, MAX_MESSAGE_BYTES), answering);
    let error = refused.map(|_| ()).unwrap_err();
    assert!(!error.to_string().contains("t0ken"), "{error}");
}
