//! The way out: whoever connects to the loopback address inside is connected to the socket of the
//! filtering proxy outside. The private network has no other peer.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Semaphore;

/// Connections at the same time; more wait.
const MAX_CONNECTIONS: usize = 64;
const BUFFER_BYTES: usize = 256 << 10;
const AFTER_ERROR: Duration = Duration::from_millis(20);

pub(crate) struct Forwarder {
    listener: TcpListener,
    port: u16,
    socket: PathBuf,
}

impl Forwarder {
    /// Listens before the program starts, so that its first connection finds a listener.
    pub(crate) fn bind(socket: PathBuf) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        // Connections have the sizes of their listener: what waits in them is this process's and no
        // longer the program's.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, BUFFER_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&listener, BUFFER_BYTES)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port, socket })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves on a thread of its own until the process ends. Without a thread or a runtime the
    /// program finds that nothing answers.
    pub(crate) fn serve(self) {
        let _ = std::thread::Builder::new().name("forwarder".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(accept(self.listener, self.socket));
            }
        });
    }
}

/// What tells programs about the proxy. Both spellings, because programs read one or the other.
pub(crate) fn variables(port: u16) -> Vec<(&'static str, String)> {
    let address = format!("http://127.0.0.1:{port}");
    let mut variables = Vec::new();
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.push((name, address.clone()));
    }
    for name in ["no_proxy", "NO_PROXY"] {
        variables.push((name, "localhost,127.0.0.1".to_owned()));
    }
    // Node's own client reads the variables above only when asked.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}

async fn accept(listener: TcpListener, socket: PathBuf) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = std::sync::Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = std::sync::Arc::clone(&places).acquire_owned().await else { return };
        // An error is about one connection that went away, or about descriptors that come back
        // when another connection ends.
        let Ok((mut inside, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            if let Ok(mut outside) = UnixStream::connect(&socket).await {
                // Either side may end in the middle; the program sees the end of its connection.
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            }
            drop(place);
        });
    }
}
