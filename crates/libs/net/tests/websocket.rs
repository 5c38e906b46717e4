//! WebSockets: the same checks as for every request, bounded messages, and the peer's code at the end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use agentd_net::{GuardedClient, Lookup, Lookups, NetError, NetPolicy, PolicyHandle, Trust, WebSocketEvent};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use url::Url;

const MOST: usize = 1024;

fn client(trust: Trust) -> GuardedClient {
    GuardedClient::new(PolicyHandle::default(), trust)
}

/// A name that leads to this machine.
struct Inward;

impl Lookup for Inward {
    fn lookup(&self, _: &str) -> Lookups {
        Box::pin(async { Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]) })
    }
}

/// Sends back what it gets, until `end`, and then closes with 4004.
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
async fn texts_go_both_ways_and_the_end_has_a_code() {
    let url = url(&format!("ws://127.0.0.1:{}/a?b=c", echo().await));
    let mut socket = client(Trust::Owner).web_socket(&url, MOST).await.unwrap();
    socket.send("Hello".to_owned()).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Text("Hello".to_owned()));
    socket.ping().await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Alive);
    socket.send("end".to_owned()).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::Closed(Some(4004)));
}

#[tokio::test]
async fn a_message_has_a_limit() {
    let url = url(&format!("ws://127.0.0.1:{}", echo().await));
    let mut socket = client(Trust::Owner).web_socket(&url, MOST).await.unwrap();
    socket.send("x".repeat(MOST + 1)).await.unwrap();
    assert_eq!(socket.next().await.unwrap(), WebSocketEvent::TooLarge);
}

#[tokio::test]
async fn what_may_not_be_reached_is_not_connected_to() {
    let port = echo().await;
    let literal = url(&format!("ws://127.0.0.1:{port}"));
    let refused = |result: Result<_, NetError>| result.map(|_| ()).unwrap_err().is_refusal();
    assert!(refused(client(Trust::Steered).web_socket(&literal, MOST).await));
    assert!(refused(client(Trust::Owner).with_trust(Trust::Steered).web_socket(&literal, MOST).await));
    let named = url(&format!("ws://inward.example:{port}"));
    let inward = |trust| GuardedClient::with_lookup(PolicyHandle::default(), trust, Arc::new(Inward));
    assert!(refused(inward(Trust::Steered).web_socket(&named, MOST).await));
    assert!(inward(Trust::Owner).web_socket(&named, MOST).await.is_ok());
    let blocked = NetPolicy { blocked_hosts: vec!["inward.example".parse().unwrap()], ..NetPolicy::default() };
    let blocked = GuardedClient::with_lookup(PolicyHandle::new(blocked), Trust::Owner, Arc::new(Inward));
    assert!(refused(blocked.web_socket(&named, MOST).await));
    for other in ["http://127.0.0.1", "ftp://127.0.0.1"] {
        assert!(refused(client(Trust::Owner).web_socket(&url(other), MOST).await), "{other}");
    }
}

#[tokio::test]
async fn no_error_shows_the_path() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = url(&format!("ws://{}/t0ken?ticket=t0ken", listener.local_addr().unwrap()));
    let answering = async {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream
    };
    let client = client(Trust::Owner);
    let (refused, _stream) = tokio::join!(client.web_socket(&url, MOST), answering);
    let error = refused.map(|_| ()).unwrap_err();
    assert!(!error.to_string().contains("t0ken"), "{error}");
}
