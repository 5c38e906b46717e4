//! What stands before a fake platform and passes its answers on late, so that a kill falls between sending a message
//! and hearing that it was taken.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use url::Url;

/// Stops when dropped.
pub struct SlowAnswers {
    accepting: AbortHandle,
    url: Url,
}

impl SlowAnswers {
    /// Before what is at `base_url`.
    pub async fn before(base_url: &str, delay: Duration) -> Self {
        let mut url = Url::parse(base_url).expect("a url");
        let to = url.socket_addrs(|| None).expect("an address")[0];
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        url.set_port(Some(listener.local_addr().expect("an address").port())).expect("a url with a port");
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(to).await else { return };
                    pass_on(client, server, delay).await;
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

async fn pass_on(client: TcpStream, server: TcpStream, delay: Duration) {
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
