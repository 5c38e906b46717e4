//! `CONNECT` tunnels: bidirectional data, as long as the policy permits them.

use std::sync::atomic::Ordering;

use agentd_net::Trust;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Bench, echo};

async fn echoes(client: &mut tokio::net::UnixStream, text: &[u8]) -> bool {
    let mut back = vec![0; text.len()];
    client.write_all(text).await.is_ok() && client.read_exact(&mut back).await.is_ok() && back == text
}

#[tokio::test]
async fn tunnel_relays_bytes_in_both_directions() {
    let port = echo().await;
    let bench = Bench::start(Trust::Owner);
    let mut client = bench.tunnel(&format!("local.example:{port}")).await;
    assert!(echoes(&mut client, b"hello").await && echoes(&mut client, &[7; 300_000]).await);
    assert_eq!(bench.names.lookups.load(Ordering::SeqCst), 1, "looked up once");
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "the end of one side reaches the other");
}

#[tokio::test]
async fn tunnel_is_closed_when_no_longer_permitted() {
    let port = echo().await;
    let bench = Bench::start(Trust::Owner);
    let mut blocked = bench.tunnel(&format!("local.example:{port}")).await;
    let mut other = bench.tunnel(&format!("other.example:{port}")).await;
    assert!(echoes(&mut blocked, b"before").await && echoes(&mut other, b"before").await);
    bench.block(&["local.example"]);
    assert!(!echoes(&mut blocked, b"after").await);
    assert!(echoes(&mut other, b"after").await, "others go on");
    bench.block(&["127.0.0.0/8"]);
    assert!(!echoes(&mut other, b"more").await, "the address counts as well as the name");
}

#[tokio::test]
async fn shutdown_closes_tunnels_and_waits_for_them() {
    let port = echo().await;
    let bench = Bench::start(Trust::Owner);
    let mut client = bench.tunnel(&format!("local.example:{port}")).await;
    assert!(echoes(&mut client, b"hello").await);
    let idle = bench.client().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    bench.proxy.shutdown().await;
    let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(after < before, "{after} of {before} tasks");
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    drop(idle);
    assert!(!bench.path.exists());
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);
}
