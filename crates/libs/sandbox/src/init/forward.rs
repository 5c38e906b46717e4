//! Network access: connections to the loopback address inside are forwarded to the socket of the filtering proxy
//! outside. The private network has no other peer.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Semaphore;

/// Maximum number of concurrent connections; more wait.
const MAX_CONNECTIONS: usize = 64;
const BUFFER_BYTES: usize = 256 << 10;
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

pub(crate) struct Forwarder {
    listener: TcpListener,
    port: u16,
    socket: PathBuf,
}

impl Forwarder {
    /// Binds the listener before the program starts, so that its first connection succeeds.
    pub(crate) fn bind(socket: PathBuf) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        // Connections inherit the sizes of their listener; buffered data belongs to this process, not to the program.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, BUFFER_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&listener, BUFFER_BYTES)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port, socket })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves in a separate thread until the process ends. Without a thread or a runtime, the program gets no response.
    pub(crate) fn serve(self) {
        let _ = std::thread::Builder::new().name("forwarder".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(accept(self.listener, self.socket));
            }
        });
    }
}

/// Returns the proxy environment variables, in both spellings, since programs read one or the other.
pub(crate) fn variables(port: u16) -> Vec<(&'static str, String)> {
    let address = format!("http://127.0.0.1:{port}");
    let mut variables = Vec::new();
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.push((name, address.clone()));
    }
    for name in ["no_proxy", "NO_PROXY"] {
        variables.push((name, "localhost,127.0.0.1".to_owned()));
    }
    // Node's built-in client reads these variables only if this is set.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}

async fn accept(listener: TcpListener, socket: PathBuf) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let permits = std::sync::Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = std::sync::Arc::clone(&permits).acquire_owned().await else { return };
        // An error concerns one closed connection, or a lack of descriptors, which other connections will release.
        let Ok((mut inside, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            if let Ok(mut outside) = UnixStream::connect(&socket).await {
                // Either side may disconnect; the program sees the end of its connection.
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            }
            drop(permit);
        });
    }
}
