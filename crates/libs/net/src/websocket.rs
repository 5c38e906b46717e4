//! WebSockets. Like any other connection, they connect to the address that was checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use crate::{NetError, tls};

/// Time limit of the TLS and WebSocket handshakes.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a send; a peer that does not read is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Open WebSocket. Pings are answered during reads.
pub struct WebSocket {
    host: String,
    stream: WebSocketStream<Box<dyn Transport>>,
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Event received from a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebSocketEvent {
    Text(String),
    /// A ping, a pong or a binary message: the peer is alive.
    Alive,
    /// The peer exceeded the message size limit. Final event.
    TooLarge,
    /// The connection was closed, with the peer's code if any. Final event.
    Closed(Option<u16>),
}

/// Converts a `ws` or `wss` URL to the HTTP URL of the upgrade request.
pub(crate) fn over_http(url: &Url) -> Result<Url, NetError> {
    let refused = || NetError::WebSocketScheme { scheme: url.scheme().to_owned() };
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return Err(refused()),
    };
    let rest = url.as_str().split_once(':').map(|(_, rest)| rest).unwrap_or_default();
    Url::parse(&format!("{scheme}:{rest}")).map_err(|_| refused())
}

/// Opens a WebSocket over `stream`, which is connected to the host of `url`.
pub(crate) async fn open(stream: TcpStream, url: &Url, max_message_bytes: usize) -> Result<WebSocket, NetError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let opening = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, url, max_message_bytes, &host));
    let stream = opening.await.map_err(|_| NetError::Timeout { host: host.clone() })??;
    Ok(WebSocket { host, stream })
}

async fn handshake(
    stream: TcpStream,
    url: &Url,
    max_message_bytes: usize,
    host: &str,
) -> Result<WebSocketStream<Box<dyn Transport>>, NetError> {
    let stream: Box<dyn Transport> = if url.scheme() == "wss" {
        let name = match url.host() {
            Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).map_err(|_| NetError::NoHost)?,
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::from(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::from(address)),
            None => return Err(NetError::NoHost),
        };
        let mut config = tls::with_machine_roots()?;
        // HTTP/2 does not support this upgrade.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let secured = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        Box::new(secured.map_err(|error| NetError::from_connect_error(host, error))?)
    } else {
        Box::new(stream)
    };
    let failed = |error: SocketError| transport_error(host, error);
    let request = url.as_str().into_client_request().map_err(failed)?;
    let config =
        WebSocketConfig::default().max_message_size(Some(max_message_bytes)).max_frame_size(Some(max_message_bytes));
    Ok(client_async_with_config(request, stream, Some(config)).await.map_err(failed)?.0)
}

/// The source is only for the log: the message names the host.
fn transport_error(host: &str, error: SocketError) -> NetError {
    NetError::Transport { host: host.to_owned(), source: Arc::new(error) }
}

impl WebSocket {
    /// Waits for the next event. Cancel-safe.
    ///
    /// # Errors
    /// [`NetError::Transport`], after which no event follows.
    pub async fn next(&mut self) -> Result<WebSocketEvent, NetError> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(WebSocketEvent::Text(text.as_str().to_owned())),
            Some(Ok(Message::Close(frame))) => Ok(WebSocketEvent::Closed(frame.map(|frame| frame.code.into()))),
            Some(Ok(_)) => Ok(WebSocketEvent::Alive),
            Some(Err(SocketError::Capacity(_))) => Ok(WebSocketEvent::TooLarge),
            None | Some(Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed)) => {
                Ok(WebSocketEvent::Closed(None))
            }
            Some(Err(error)) => Err(transport_error(&self.host, error)),
        }
    }

    /// Sends a text message.
    ///
    /// # Errors
    /// [`NetError::Transport`], or [`NetError::Timeout`] if the peer does not accept the message.
    pub async fn send(&mut self, text: String) -> Result<(), NetError> {
        self.send_message(Message::text(text)).await
    }

    /// Sends a ping; the reply arrives as [`WebSocketEvent::Alive`].
    ///
    /// # Errors
    /// Same as [`Self::send`].
    pub async fn ping(&mut self) -> Result<(), NetError> {
        self.send_message(Message::Ping(bytes::Bytes::new())).await
    }

    /// Closes the connection with a code; no error if the peer is already disconnected.
    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        let _ = tokio::time::timeout(SEND_TIMEOUT, self.stream.send(Message::Close(Some(frame)))).await;
    }

    async fn send_message(&mut self, message: Message) -> Result<(), NetError> {
        match tokio::time::timeout(SEND_TIMEOUT, self.stream.send(message)).await {
            Ok(sent) => sent.map_err(|error| transport_error(&self.host, error)),
            Err(_) => Err(NetError::Timeout { host: self.host.clone() }),
        }
    }
}
