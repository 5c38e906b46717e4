//! Plain requests: forwarded, filtered and refused data.

use std::sync::atomic::Ordering;

use agentd_net::{ListedPorts, NetPolicy, Trust};

use crate::support::{Bench, OK, ask, read_head, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn get(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nhost: liar.example\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn permitted_request_is_forwarded_with_its_response() {
    let (port, mut heads) =
        serve("HTTP/1.1 418 Teapot\r\ncontent-length: 2\r\nx-kept: 1\r\nkeep-alive: 5\r\n\r\nok").await;
    let bench = Bench::start(Trust::Owner);
    let answer = bench.ask(&get(&format!("http://local.example:{port}/a%2Fb/../c?d={{e}}"))).await;
    assert!(answer.starts_with("HTTP/1.1 418 ") && answer.ends_with("ok"), "{answer}");
    assert!(answer.contains("x-kept: 1") && !answer.contains("keep-alive"), "{answer}");
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("GET /a%2Fb/../c?d={e} HTTP/1.1\r\n"), "the path is sent as it came: {head}");
    assert!(head.contains(&format!("host: local.example:{port}\r\n")) && !head.contains("liar"), "{head}");
    assert_eq!(bench.names.lookups.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn hop_by_hop_headers_are_not_forwarded() {
    let (port, mut heads) = serve(OK).await;
    let bench = Bench::start(Trust::Owner);
    let request = format!(
        "POST http://local.example:{port}/ HTTP/1.1\r\nconnection: keep-alive, x-private\r\nx-private: 1\r\n\
         proxy-authorization: Basic abc\r\nproxy-connection: keep-alive\r\nte: trailers\r\nupgrade: h2c\r\n\
         http2-settings: AAA\r\nx-public: 1\r\ncontent-length: 0\r\n\r\n"
    );
    let mut client = bench.client().await;
    client.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
    let head = heads.recv().await.unwrap();
    for gone in ["x-private", "proxy-", "te:", "upgrade", "http2-settings", "keep-alive", "abc"] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }
    assert!(head.contains("x-public: 1") && head.contains("connection: close"), "{head}");
}

#[tokio::test]
async fn conflicting_lengths_are_removed() {
    let (port, mut heads) = serve(OK).await;
    let bench = Bench::start(Trust::Owner);
    // A parser that believed the length would treat the rest as a second request.
    let request = format!(
        "POST http://local.example:{port}/ HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\
         connection: close\r\n\r\n0\r\n\r\nGET http://169.254.169.254/ HTTP/1.1\r\n\r\n"
    );
    let answer = bench.ask(&request).await;
    if answer.starts_with("HTTP/1.1 200 ") {
        let head = heads.recv().await.unwrap();
        assert!(!head.contains("content-length: 4"), "{head}");
    } else {
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn refusal_names_reason_and_remedy_and_is_observed_without_path() {
    let bench = Bench::start(Trust::Untrusted);
    for (request, host) in [
        (get("http://inside.example/secret?key=abc"), "inside.example"),
        (get("http://127.0.0.1/secret?key=abc"), "127.0.0.1"),
        ("CONNECT 10.0.0.7:443 HTTP/1.1\r\n\r\n".to_owned(), "10.0.0.7"),
    ] {
        let answer = bench.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("security.allowed_hosts"), "{answer}");
        let heard = bench.heard.0.lock().unwrap().pop().unwrap();
        assert!(heard.starts_with(host) && heard.contains("agents"), "{heard}");
        assert!(!heard.contains("secret") && !heard.contains("abc") && !answer.contains("abc"), "{heard} {answer}");
    }
}

#[tokio::test]
async fn policy_changes_apply_immediately_and_blocks_take_precedence() {
    let (port, _heads) = serve(OK).await;
    let bench = Bench::start(Trust::Untrusted);
    let request = get(&format!("http://local.example:{port}/"));
    assert!(bench.ask(&request).await.starts_with("HTTP/1.1 403 "));
    let named = vec!["local.example".parse().unwrap()];
    bench.policy.set(NetPolicy { allowed_hosts: named.clone(), ..NetPolicy::default() });
    assert!(bench.ask(&request).await.starts_with("HTTP/1.1 200 "));
    bench.policy.set(NetPolicy { allowed_hosts: named.clone(), blocked_hosts: named });
    let answer = bench.ask(&request).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("security.blocked_hosts"), "{answer}");
}

#[tokio::test]
async fn only_listed_ports_are_permitted() {
    let (port, _heads) = serve(OK).await;
    let listed = ListedPorts { ports: vec![80, 443], setting: "sandbox.ports" };
    let bench = Bench::start_with(Trust::Owner, |options| options.ports = Some(listed));
    let answer = bench.ask(&get(&format!("http://local.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("sandbox.ports"), "{answer}");
    assert_eq!(bench.heard.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn other_requests_are_rejected_with_a_message() {
    let bench = Bench::start(Trust::Owner);
    for (request, says) in [
        (get("https://local.example/"), "CONNECT"),
        (get("/path"), "an absolute URL"),
        (get("ftp://local.example/"), "HTTP"),
        ("CONNECT local.example HTTP/1.1\r\n\r\n".to_owned(), "a port"),
    ] {
        let answer = bench.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(says), "{answer}");
    }
    assert!(bench.ask("nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn unreachable_server_is_bad_gateway() {
    let bench = Bench::start(Trust::Owner);
    let answer = bench.ask(&get("http://nowhere.example/")).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("nowhere.example"), "{answer}");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let answer = bench.ask(&get(&format!("http://local.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(bench.heard.0.lock().unwrap().is_empty(), "a failure is not a refusal");
    let (port, _heads) = serve("SSH-2.0-OpenSSH\r\n").await;
    assert!(bench.ask(&get(&format!("http://local.example:{port}/"))).await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn connection_serves_multiple_requests() {
    let (port, mut heads) = serve(OK).await;
    let bench = Bench::start(Trust::Owner);
    let mut client = bench.client().await;
    for path in ["first", "second"] {
        let request = format!("GET http://local.example:{port}/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
        let mut body = [0; 2];
        client.read_exact(&mut body).await.unwrap();
        assert!(heads.recv().await.unwrap().contains(path));
    }
}

#[tokio::test]
async fn websocket_is_forwarded_after_the_same_check() {
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                          sec-websocket-accept: xyz\r\n\r\n";
    let (port, mut heads) = serve(SWITCH).await;
    let bench = Bench::start(Trust::Owner);
    let request = |host: &str| {
        format!(
            "GET http://{host}:{port}/socket HTTP/1.1\r\nhost: {host}\r\nconnection: keep-alive, Upgrade\r\n\
             upgrade: WebSocket\r\nsec-websocket-key: abc\r\n\r\n"
        )
    };
    let mut client = bench.client().await;
    client.write_all(request("local.example").as_bytes()).await.unwrap();
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("sec-websocket-accept: xyz"), "{head}");
    let seen = heads.recv().await.unwrap();
    assert!(seen.contains("upgrade: websocket") && seen.contains("sec-websocket-key: abc"), "{seen}");
    client.write_all(b"\x81\x02hi").await.unwrap();
    let mut echoed = [0; 4];
    client.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"\x81\x02hi");
    let refused = ask(bench.client().await, &request("169.254.169.254")).await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
}

#[tokio::test]
async fn unrequested_protocol_switch_is_bad_gateway() {
    let (port, _heads) = serve("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n").await;
    let bench = Bench::start(Trust::Owner);
    let answer = bench.ask(&get(&format!("http://local.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}
