//! Common WebSocket server of the fakes on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Server action on a socket.
#[derive(Debug, Clone)]
pub(crate) enum ToSocket {
    Send(Value),
    Ping,
    /// Closes it with this code.
    Close(u16),
    /// Drops it without a close frame.
    Drop,
    /// Stops reading and writing.
    Freeze,
}

/// Client event.
#[derive(Debug)]
pub(crate) enum FromSocket {
    Message(Value),
    Pong,
    /// Disconnected, with the close code if one was sent.
    Disconnected(Option<u16>),
}

/// Accepted socket.
#[derive(Debug)]
pub(crate) struct FakeSocket {
    pub(crate) query: String,
    pub(crate) client: mpsc::UnboundedSender<ToSocket>,
    pub(crate) events: mpsc::UnboundedReceiver<FromSocket>,
}

/// Server that passes each socket to `serve`, and stops when dropped.
#[derive(Debug)]
pub(crate) struct SocketServer {
    pub(crate) address: SocketAddr,
    accepting: AbortHandle,
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl SocketServer {
    /// Starts the socket server on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub(crate) async fn start(serve: impl Fn(FakeSocket) + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let query = Mutex::new(String::new());
                #[allow(clippy::result_large_err, reason = "the library says what is returned")]
                let record_query = |request: &Request, response: Response| {
                    *query.lock() = request.uri().query().unwrap_or_default().to_owned();
                    Ok(response)
                };
                let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, record_query).await else { continue };
                let (client, orders) = mpsc::unbounded_channel();
                let (event_sender, events) = mpsc::unbounded_channel();
                serve(FakeSocket { query: query.into_inner(), client, events });
                tokio::spawn(forward(socket, orders, event_sender));
            }
        });
        Ok(Self { address, accepting: accepting.abort_handle() })
    }
}

async fn forward(
    mut socket: WebSocketStream<TcpStream>,
    mut orders: mpsc::UnboundedReceiver<ToSocket>,
    event_sender: mpsc::UnboundedSender<FromSocket>,
) {
    let mut code = None;
    loop {
        tokio::select! {
            order = orders.recv() => {
                let message = match order {
                    Some(ToSocket::Send(value)) => Message::text(value.to_string()),
                    Some(ToSocket::Ping) => Message::Ping(bytes::Bytes::from_static(b"Ping from applink")),
                    Some(ToSocket::Close(code)) => {
                        Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))
                    }
                    Some(ToSocket::Freeze) => std::future::pending().await,
                    Some(ToSocket::Drop) | None => break,
                };
                if socket.send(message).await.is_err() {
                    break;
                }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let message = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                    let _ = event_sender.send(FromSocket::Message(message));
                }
                Some(Ok(Message::Pong(_))) => {
                    let _ = event_sender.send(FromSocket::Pong);
                }
                Some(Ok(Message::Close(frame))) => code = frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
        }
    }
    let _ = event_sender.send(FromSocket::Disconnected(code));
}
