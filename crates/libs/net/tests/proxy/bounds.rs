//! Resource limits for clients and servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_net::{ProxyLimits, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Bench, OK, echo, read_head, serve};

const SHORT: Duration = Duration::from_millis(50);

fn with(change: impl FnOnce(&mut ProxyLimits)) -> Bench {
    Bench::start_with(Trust::Owner, |options| change(&mut options.limits))
}

/// Reads until the other side closes or resets the connection.
async fn read_to_end(mut stream: impl AsyncReadExt + Unpin) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    all
}

#[tokio::test]
async fn tunnel_ends_at_its_byte_limit() {
    let port = echo().await;
    let bench = with(|limits| limits.bytes_each_way = Some(100_000));
    let client = bench.tunnel(&format!("local.example:{port}")).await;
    let (reader, mut writer) = client.into_split();
    let writing = tokio::spawn(async move { while writer.write_all(&[1; 10_000]).await.is_ok() {} });
    let got = read_to_end(reader).await;
    assert!(got.len() <= 100_000, "{}", got.len());
    writing.await.unwrap();
}

#[tokio::test]
async fn endless_response_ends_at_its_byte_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
    });
    let bench = with(|limits| limits.bytes_each_way = Some(100_000));
    let answer = bench.ask(&format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() < 110_000, "{}", answer.len());
    assert!(!answer.ends_with("0\r\n\r\n"), "cut off, not finished");
}

#[tokio::test]
async fn idle_tunnels_and_clients_are_closed() {
    let port = echo().await;
    let bench = with(|limits| limits.idle_timeout = SHORT);
    let tunnel = bench.tunnel(&format!("local.example:{port}")).await;
    assert!(read_to_end(tunnel).await.is_empty());
    assert!(read_to_end(bench.client().await).await.is_empty());
}

#[tokio::test]
async fn busy_tunnel_ends_at_its_time_limit() {
    let port = echo().await;
    let bench = with(|limits| limits.total_timeout = SHORT);
    let client = bench.tunnel(&format!("local.example:{port}")).await;
    let (reader, mut writer) = client.into_split();
    let writing = tokio::spawn(async move { while writer.write_all(b"x").await.is_ok() {} });
    read_to_end(reader).await;
    writing.await.unwrap();
}

#[tokio::test]
async fn silent_server_times_out() {
    let (port, _heads) = serve("").await;
    let bench = with(|limits| limits.total_timeout = SHORT);
    let answer = bench.ask(&format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("local.example"), "{answer}");
}

#[tokio::test]
async fn slow_or_endless_request_head_is_rejected() {
    let bench = with(|limits| (limits.head_timeout, limits.head_bytes) = (SHORT, 8 << 10));
    let mut drip = bench.client().await;
    drip.write_all(b"GET http://local.example/ HT").await.unwrap();
    let got = read_to_end(drip).await;
    assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&got));
    let huge = format!("GET http://local.example/ HTTP/1.1\r\nhost: x\r\nx-huge: {}\r\n\r\n", "x".repeat(20_000));
    let answer = bench.ask(&huge).await;
    assert!(answer.starts_with("HTTP/1.1 431 ") || answer.is_empty(), "{answer}");
}

#[tokio::test]
async fn oversized_response_head_is_bad_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"x-more: 0123456789012345678901234567890123456789\r\n").await.is_ok() {}
    });
    let bench = Bench::start(Trust::Owner);
    let answer = bench.ask(&format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn excess_client_waits_for_a_permit() {
    let port = echo().await;
    let (answering, mut heads) = serve(OK).await;
    let bench = with(|limits| limits.connections = 1);
    let first_is_gone = Arc::new(AtomicBool::new(false));
    let first = bench.tunnel(&format!("local.example:{port}")).await;
    let mut second = bench.client().await;
    let request = format!("GET http://local.example:{answering}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    second.write_all(request.as_bytes()).await.unwrap();
    let flag = Arc::clone(&first_is_gone);
    let answered = tokio::spawn(async move {
        heads.recv().await.unwrap();
        flag.load(Ordering::SeqCst)
    });
    // All tasks that can run without the permit have run by now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    first_is_gone.store(true, Ordering::SeqCst);
    drop(first);
    assert!(answered.await.unwrap(), "served while the only place was taken");
    assert!(read_head(&mut second).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn slow_reading_client_is_disconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (gone, end) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
        let _ = gone.send(());
    });
    let bench =
        with(|limits| (limits.total_timeout, limits.connect_timeout, limits.head_timeout) = (SHORT, SHORT, SHORT));
    let mut client = bench.client().await;
    let request = format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    end.await.unwrap();
    // Writing fails once the proxy has closed; reading would first drain the sent data.
    while client.write_all(b"x").await.is_ok() {}
}
