//! Misbehaving receivers: each costs at most its time limit, and its failure is reported.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::receiver::{Answer, Receiver};
use super::{create_hook, deliveries, emit, queue_stats, settle};
use crate::support::TestApp;

/// Starts a server that handles each connection with `behave`; returns its URL.
async fn start_server<F: Future<Output = ()> + Send>(
    behave: impl Fn(TcpStream) -> F + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let behave = behave.clone();
            tokio::spawn(async move { behave(stream).await });
        }
    });
    format!("http://{address}/in")
}

async fn read_request(stream: &mut TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    let _ = stream.read(&mut bytes).await;
}

/// Returns the delivery after one attempt at this receiver.
async fn attempt(app: &TestApp, url: &str) -> Value {
    let hook = json!({
        "name": "bad", "event_type": "project.created", "hook_type": "http", "config": {"url": url, "queued": true},
    });
    let id = create_hook(app, hook).await;
    emit(app, "project.created", json!({"name": "x"})).await;
    settle(app).await;
    let list = deliveries(app, &id).await;
    app.delete(&format!("/api/hooks/{id}")).send().await.expect_status(200);
    list["deliveries"][0].clone()
}

fn assert_failed(delivery: &Value, says: &str) {
    assert_eq!(delivery["status"], "failed", "{delivery}");
    assert!(delivery["error"].as_str().unwrap().contains(says), "{delivery}");
}

#[tokio::test]
async fn connection_errors_fail_the_delivery() {
    let app = TestApp::with_owner().await;
    let closes = start_server(|stream| async move { drop(stream) }).await;
    assert_failed(&attempt(&app, &closes).await, "connection to 127.0.0.1 failed");
    let speaks_otherwise = start_server(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
    })
    .await;
    assert_failed(&attempt(&app, &speaks_otherwise).await, "127.0.0.1");
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_failed(&attempt(&app, &format!("http://{unused}/")).await, "could not connect to");
    assert_failed(&attempt(&app, "http://no-such-host.invalid/").await, "could not be resolved");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (app, elsewhere, receiver) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    receiver.always(Answer::With(302, "location", elsewhere.url()));
    let delivery = attempt(&app, &receiver.url()).await;
    assert_failed(&delivery, "redirects are not followed");
    assert_eq!(delivery["response_status"], 302);
    assert_eq!(elsewhere.received().len(), 0);
}

#[tokio::test]
async fn error_includes_an_excerpt_of_the_response() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    receiver.always(Answer::With(422, "x-y", "z".to_owned()));
    assert_failed(&attempt(&app, &receiver.url()).await, "said why");
}

#[tokio::test]
async fn endless_response_is_not_read() {
    let app = TestApp::with_owner().await;
    let endless = |status: &'static str| {
        start_server(move |mut stream| async move {
            read_request(&mut stream).await;
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 100000000000\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let block = vec![b'x'; 1024 * 1024];
            while stream.write_all(&block).await.is_ok() {}
        })
    };
    let delivery = attempt(&app, &endless("200 OK").await).await;
    assert_eq!((&delivery["status"], &delivery["response_status"]), (&json!("success"), &json!(200)));
    let delivery = attempt(&app, &endless("500 Oops").await).await;
    assert_failed(&delivery, "500");
    assert!(delivery["error"].as_str().unwrap().len() < 1000);
    // The status line decides; a slow body is not awaited.
    let drips = start_server(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(attempt(&app, &drips).await["status"], "success");
}

/// Tests both concurrently: each takes the whole time limit.
#[tokio::test]
async fn hanging_and_slow_receivers_fail_at_the_time_limit() {
    let (app, hangs) = (TestApp::with_owner().await, Receiver::start().await);
    hangs.always(Answer::Hang);
    let drips = start_server(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
    let hook = |url: &str| json!({"name": "bad", "event_type": "project.created", "hook_type": "http", "config": {"url": url, "queued": true}});
    let ids = [create_hook(&app, hook(&hangs.url())).await, create_hook(&app, hook(&drips)).await];
    emit(&app, "project.created", json!({})).await;
    settle(&app).await;
    for id in ids {
        let list = deliveries(&app, &id).await;
        assert_failed(&list["deliveries"][0], "did not respond in time");
        assert!(list["deliveries"][0]["duration_ms"].as_u64().unwrap() >= 9_000, "{list}");
    }
    assert_eq!(queue_stats(&app).await["failed"], 2);
}

#[tokio::test]
async fn receiver_with_an_invalid_certificate_gets_nothing() {
    let app = TestApp::with_owner().await;
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let url = start_server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.expect_err("the client rejects the certificate");
            let _ = &mut stream;
        }
    })
    .await;
    let url = url.replace("http://127.0.0.1", "https://localhost");
    assert_failed(&attempt(&app, &url).await, "certificate");
}
