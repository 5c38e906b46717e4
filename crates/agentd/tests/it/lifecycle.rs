//! From start to end: what replicas on one data directory share, and how a daemon goes down.

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::support::TestApp;

/// What `/health` answers on the private socket of the data directory; `None` when nobody does.
async fn over_socket(app: &TestApp) -> Option<Value> {
    let stream = tokio::net::UnixStream::connect(app.data_dir().join("agentd.sock")).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = http::Request::get("/health").header("host", "localhost").body(axum::body::Body::empty());
    let answer = sender.send_request(request.expect("a request")).await.ok()?;
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}

#[tokio::test]
async fn a_replica_on_the_same_data_directory_takes_no_socket_away() {
    let mut first = TestApp::with_owner().await;
    assert!(over_socket(&first).await.is_some());
    let Some(mut second) = first.replica_on_same_data_dir().await else { return };
    let mut third = first.replica_on_same_data_dir().await.expect("the same");
    assert!(over_socket(&first).await.is_some());
    // One that never had the socket takes nothing along.
    third.stop().await;
    assert!(over_socket(&first).await.is_some());
    first.stop().await;
    // The other one takes over.
    while over_socket(&first).await.is_none() {
        tokio::task::yield_now().await;
    }
    second.stop().await;
    assert!(!second.data_dir().join("agentd.sock").exists());
}
