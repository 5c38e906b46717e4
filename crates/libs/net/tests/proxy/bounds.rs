//! What a client or a server may cost.

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

/// Reads until the other side ends or cuts the connection.
async fn ends(mut stream: impl AsyncReadExt + Unpin) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    all
}

#[tokio::test]
async fn a_tunnel_ends_after_its_bytes() {
    let port = echo().await;
    let bench = with(|limits| limits.bytes_each_way = Some(100_000));
    let client = bench.tunnel(&format!("local.example:{port}")).await;
    let (reader, mut writer) = client.into_split();
    let writing = tokio::spawn(async move { while writer.write_all(&[1; 10_000]).await.is_ok() {} });
    let got = ends(reader).await;
    assert!(got.len() <= 100_000, "{}", got.len());
    writing.await.unwrap();
}

#[tokio::test]
async fn an_endless_answer_ends_after_its_bytes() {
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
async fn an_idle_tunnel_and_an_idle_client_are_closed() {
    let port = echo().await;
    let bench = with(|limits| limits.idle_time = SHORT);
    let tunnel = bench.tunnel(&format!("local.example:{port}")).await;
    assert!(ends(tunnel).await.is_empty());
    assert!(ends(bench.client().await).await.is_empty());
}

#[tokio::test]
async fn a_busy_tunnel_ends_after_its_time() {
    let port = echo().await;
    let bench = with(|limits| limits.total_time = SHORT);
    let client = bench.tunnel(&format!("local.example:{port}")).await;
    let (reader, mut writer) = client.into_split();
    let writing = tokio::spawn(async move { while writer.write_all(b"x").await.is_ok() {} });
    ends(reader).await;
    writing.await.unwrap();
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let (port, _heads) = serve("").await;
    let bench = with(|limits| limits.total_time = SHORT);
    let answer = bench.ask(&format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("local.example"), "{answer}");
}

#[tokio::test]
async fn a_head_that_drips_or_never_ends_is_refused() {
    let bench = with(|limits| (limits.head_time, limits.head_bytes) = (SHORT, 8 << 10));
    let mut drip = bench.client().await;
    drip.write_all(b"GET http://local.example/ HT").await.unwrap();
    let got = ends(drip).await;
    assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&got));
    let huge = format!("GET http://local.example/ HTTP/1.1\r\nhost: x\r\nx-huge: {}\r\n\r\n", "x".repeat(20_000));
    let answer = bench.ask(&huge).await;
    assert!(answer.starts_with("HTTP/1.1 431 ") || answer.is_empty(), "{answer}");
}

#[tokio::test]
async fn an_answer_with_a_huge_head_is_a_bad_gateway() {
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
async fn one_client_too_many_waits_for_a_place() {
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
    // Everything that could run without the place has run by now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    first_is_gone.store(true, Ordering::SeqCst);
    drop(first);
    assert!(answered.await.unwrap(), "served while the only place was taken");
    assert!(read_head(&mut second).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_client_that_reads_ever_so_slowly_is_cut_off() {
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
    let bench = with(|limits| (limits.total_time, limits.connect_time, limits.head_time) = (SHORT, SHORT, SHORT));
    let mut client = bench.client().await;
    let request = format!("GET http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    end.await.unwrap();
    // Writing fails once the proxy has closed; reading would first drain what was sent.
    while client.write_all(b"x").await.is_ok() {}
}
