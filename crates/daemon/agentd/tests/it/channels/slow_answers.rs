//! Proxy in front of a fake platform that delays its responses, so that a kill can fall between sending a message and
//! receiving the response.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use url::Url;

/// A running proxy; stops when dropped.
pub struct SlowAnswers {
    accepting: AbortHandle,
    url: Url,
}

impl SlowAnswers {
    /// Starts a proxy in front of the server at `base_url`.
    pub async fn before(base_url: &str, delay: Duration) -> Self {
        let mut url = Url::parse(base_url).expect("a url");
        let upstream = url.socket_addrs(|| None).expect("an address")[0];
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        url.set_port(Some(listener.local_addr().expect("an address").port())).expect("a url with a port");
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(upstream).await else { return };
                    forward(client, server, delay).await;
                });
            }
        };
        Self { accepting: tokio::spawn(accept).abort_handle(), url }
    }

    pub fn url(&self) -> &str {
        self.url.as_str()
    }
}

impl Drop for SlowAnswers {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(client: TcpStream, server: TcpStream, delay: Duration) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async move {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
            tokio::time::sleep(delay).await;
            if to_client.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
    }
}
