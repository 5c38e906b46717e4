//! Sockets: their access rights and their removal.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use agentd_base::Entropy;
use agentd_net::{FilteringProxy, PolicyHandle, ProxyError, ProxyListener, ProxyOptions, SocketOwner, Trust};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpStream;

use crate::support::{Bench, ask};

fn start(path: &Path, owner: Option<SocketOwner>) -> Result<FilteringProxy, ProxyError> {
    let listener = ProxyListener::Unix { path: path.to_owned(), owner };
    FilteringProxy::start(&listener, ProxyOptions::new(PolicyHandle::default(), Trust::Untrusted), &Entropy::seeded(1))
}

#[tokio::test]
async fn socket_is_private_and_removed_with_the_proxy() {
    let bench = Bench::start(Trust::Untrusted);
    assert_eq!(bench.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(bench.proxy.path(), Some(bench.path.as_path()));
    drop(bench.proxy);
    assert!(!bench.path.exists(), "dropping removes it too");
}

#[tokio::test]
async fn stale_socket_is_replaced_and_active_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind by a process that died");
    let proxy = start(&path, None).unwrap();
    assert!(matches!(start(&path, None), Err(ProxyError::Occupied { .. })));
    proxy.shutdown().await;
    std::fs::write(&path, "a file of another user").unwrap();
    assert!(matches!(start(&path, None), Err(ProxyError::Occupied { .. })));
    assert!(path.exists());
}

#[tokio::test]
async fn replaced_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let ours = start(&path, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _theirs = UnixListener::bind(&path).unwrap();
    ours.shutdown().await;
    assert!(path.exists());
}

#[tokio::test]
async fn bind_error_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing/proxy.sock"), folder.path().join("x".repeat(200))] {
        let error = start(&path, None).unwrap_err();
        assert!(matches!(error, ProxyError::Socket { .. }) && error.to_string().contains(path.to_str().unwrap()));
    }
}

#[tokio::test]
async fn root_can_give_a_socket_to_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.sock");
    let other_owner = SocketOwner { uid: 65534, gid: 65534 };
    match start(&path, Some(other_owner)) {
        Ok(proxy) => {
            let found = path.metadata().unwrap();
            assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (65534, 65534, 0o600));
            proxy.shutdown().await;
        }
        Err(error) => {
            assert!(matches!(error, ProxyError::Owner { uid: 65534, .. }), "{error}");
            assert_ne!(folder.path().metadata().unwrap().uid(), 0, "root can");
        }
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn loopback_port_requires_its_credential() {
    let options = ProxyOptions::new(PolicyHandle::default(), Trust::Untrusted);
    let proxy = FilteringProxy::start(&ProxyListener::Loopback, options, &Entropy::seeded(1)).unwrap();
    let other = ProxyOptions::new(PolicyHandle::default(), Trust::Untrusted);
    let entropy = Entropy::seeded(2);
    let other = FilteringProxy::start(&ProxyListener::Loopback, other, &entropy).unwrap();
    let address = proxy.address().unwrap();
    assert!(address.ip().is_loopback() && proxy.path().is_none());
    let basic = |proxy: &FilteringProxy| {
        let (user, password) = proxy.credential().unwrap();
        format!("proxy-authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{}", password.expose())))
    };
    let request = |header: &str| format!("GET http://127.0.0.1/ HTTP/1.1\r\nconnection: close\r\n{header}\r\n");
    for header in [String::new(), basic(&other), "proxy-authorization: Basic YWdlbnRkOg==\r\n".to_owned()] {
        let answer = ask(TcpStream::connect(address).await.unwrap(), &request(&header)).await;
        assert!(answer.starts_with("HTTP/1.1 407 ") && answer.contains("proxy-authenticate: Basic"), "{answer}");
    }
    let answer = ask(TcpStream::connect(address).await.unwrap(), &request(&basic(&proxy))).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(!format!("{proxy:?}").contains(proxy.credential().unwrap().1.expose()));
    proxy.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
}
