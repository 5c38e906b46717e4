//! WebSocket connection to the daemon, over TCP or TLS.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error as SocketError};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use crate::cli::error::CliError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum frame size. The largest frame is the input of a tool call.
const MAX_FRAME_BYTES: usize = 4 << 20;

pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

pub(super) type Socket = WebSocketStream<Box<dyn Transport>>;

/// Address of the daemon.
#[derive(Debug, Clone)]
pub(super) struct Address {
    url: Url,
    is_encrypted: bool,
}

/// Reason for a failed connection attempt.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The daemon rejected the token.
    Refused,
    /// Temporary failure; the attempt is retried.
    Failed(String),
}

/// Parses the URL of a daemon.
pub(super) fn parse(text: &str) -> Result<Address, CliError> {
    let wrong = || CliError::Usage(format!("`{text}` is not a URL of a daemon such as https://agents.example.com"));
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_encrypted = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(wrong()),
    };
    if url.host().is_none() || url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(wrong());
    }
    Ok(Address { url, is_encrypted })
}

impl Address {
    /// Whether the token would be sent over a network unencrypted.
    pub(super) fn is_exposed(&self) -> bool {
        let is_local = match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        !self.is_encrypted && !is_local
    }

    /// Opens the device socket.
    pub(super) async fn connect(&self, token: &str) -> Result<Socket, ConnectError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.try_connect(token));
        let limit = CONNECT_TIMEOUT.as_secs();
        connecting.await.unwrap_or_else(|_| Err(ConnectError::Failed(format!("no response within {limit} seconds"))))
    }

    async fn try_connect(&self, token: &str) -> Result<Socket, ConnectError> {
        let failed = |error: &dyn std::fmt::Display| ConnectError::Failed(error.to_string());
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.url.port_or_known_default().unwrap_or(80);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let stream: Box<dyn Transport> = if self.is_encrypted {
            let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
            let connector = TlsConnector::from(tls().await.map_err(ConnectError::Failed)?);
            Box::new(connector.connect(name, stream).await.map_err(|error| failed(&error))?)
        } else {
            Box::new(stream)
        };
        let mut target = self.url.clone();
        let scheme = if self.is_encrypted { "wss" } else { "ws" };
        // Cannot fail for a URL with a host.
        target.set_scheme(scheme).map_err(|()| ConnectError::Failed("the address cannot be used".to_owned()))?;
        target.set_path(&format!("{}/api/devices/ws", self.url.path().trim_end_matches('/')));
        target.query_pairs_mut().append_pair("token", token);
        let request = target.as_str().into_client_request().map_err(|error| explain(&error))?;
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_FRAME_BYTES)).max_frame_size(Some(MAX_FRAME_BYTES));
        let (socket, _) =
            client_async_with_config(request, stream, Some(config)).await.map_err(|error| explain(&error))?;
        Ok(socket)
    }
}

/// Describes an error without the URL, which contains the token.
fn explain(error: &SocketError) -> ConnectError {
    match error {
        SocketError::Http(answer) if answer.status() == tungstenite::http::StatusCode::UNAUTHORIZED => {
            ConnectError::Refused
        }
        SocketError::Http(answer) => {
            ConnectError::Failed(format!("the daemon responded with status {}", answer.status()))
        }
        SocketError::Io(error) => ConnectError::Failed(error.to_string()),
        _ => ConnectError::Failed("the server does not support WebSocket connections of agentd".to_owned()),
    }
}

async fn tls() -> Result<Arc<ClientConfig>, String> {
    // On a blocking thread, because reading a few hundred files takes milliseconds.
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.await.map_err(|error| error.to_string())?.certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_only_http_urls() {
        for good in ["https://a.example", "http://127.0.0.1:7878", "https://a.example/agents"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["a.example", "ws://a.example", "https://a.example?x=1", "https://u@a.example", "file:///etc"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let exposed = |text: &str| parse(text).unwrap().is_exposed();
        assert!(exposed("http://192.0.2.1") && exposed("http://a.example"));
        assert!(!exposed("http://localhost:1") && !exposed("http://[::1]") && !exposed("https://a.example"));
    }

    #[tokio::test]
    async fn errors_do_not_contain_the_token() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let answering = async {
            use tokio::io::AsyncWriteExt;
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
            stream
        };
        let (refused, _stream) = tokio::join!(address.connect("dev_secret"), answering);
        let shown = format!("{:?}", refused.map(|_| ()).unwrap_err());
        assert!(shown.contains("WebSocket") && !shown.contains("dev_secret"), "{shown}");
    }
}
