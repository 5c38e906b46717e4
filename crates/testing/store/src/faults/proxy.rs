//! Proxy in front of PostgreSQL that breaks, blocks or delays connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Fate of a `COMMIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The server does not receive it, and the connection ends.
    NotSent,
    /// The server receives half of the message, and the connection ends.
    Half,
    /// The server commits, and the connection ends.
    NotAnswered,
    /// The server commits, but its response is never delivered.
    Hangs,
}

impl Commit {
    pub const ALL: [Self; 4] = [Self::NotSent, Self::Half, Self::NotAnswered, Self::Hangs];

    /// Whether the server commits.
    #[must_use]
    pub fn is_committed(self) -> bool {
        matches!(self, Self::NotAnswered | Self::Hangs)
    }
}

/// Next single fault. Bytes are counted in both directions, from the time of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    Commit(Commit),
    /// The connection that carries this byte is closed there.
    EndAtByte(u64),
    /// The connection that carries this byte stays open, but nothing more is delivered.
    HangAtByte(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Passes,
    /// Data is delivered in small pieces with this delay.
    Slow(Duration),
    Hangs,
    /// New connections are refused.
    Refused,
}

/// State that applies to all connections.
#[derive(Debug, Clone, Copy)]
struct Orders {
    traffic: Traffic,
    /// Connections opened before the last restart were closed with it.
    restarts: u64,
    /// Connections opened before the last failover have lost their server without notice.
    failovers: u64,
}

#[derive(Debug, Default)]
struct State {
    planned: Mutex<Option<Break>>,
    bytes: AtomicU64,
    broken: AtomicU64,
}

/// Running proxy; stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    state: Arc<State>,
    orders: Arc<watch::Sender<Orders>>,
    listening: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.orders.send_modify(|orders| orders.restarts += 1);
    }
}

const HOST: &str = "127.0.0.1";
const SLOW_BYTES: usize = 256;

impl Proxy {
    /// Starts a proxy for the server of a URL and returns the proxied URL. The server must listen on 127.0.0.1.
    ///
    /// # Errors
    /// The URL has another host, or no port is available.
    pub fn start(url: &str) -> io::Result<(Self, String)> {
        let another = || io::Error::from(io::ErrorKind::InvalidInput);
        let prefix = format!("{HOST}:");
        let (front, back) = url.split_once(&prefix).ok_or_else(another)?;
        let digits = back.find(|character: char| !character.is_ascii_digit()).unwrap_or(back.len());
        let (server, back) = back.split_at_checked(digits).ok_or_else(another)?;
        let server: u16 = server.parse().map_err(|_| another())?;
        let listener = std::net::TcpListener::bind((HOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = TcpListener::from_std(listener)?;
        let state = Arc::<State>::default();
        let orders = Arc::new(watch::Sender::new(Orders { traffic: Traffic::Passes, restarts: 0, failovers: 0 }));
        let listening = tokio::spawn(listen(listener, server, Arc::clone(&state), Arc::clone(&orders)));
        Ok((Self { state, orders, listening }, format!("{front}{prefix}{port}{back}")))
    }

    pub fn plan(&self, next: Break) {
        self.state.bytes.store(0, Ordering::Relaxed);
        *self.state.planned.lock() = Some(next);
    }

    /// Cancels planned faults and delivers all traffic.
    pub fn clear(&self) {
        *self.state.planned.lock() = None;
        self.order(Traffic::Passes);
    }

    /// Returns the number of bytes since the last plan.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of broken connections.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.state.broken.load(Ordering::Relaxed)
    }

    fn order(&self, traffic: Traffic) {
        self.orders.send_modify(|orders| orders.traffic = traffic);
    }

    /// Closes all connections and refuses new ones until [`clear`](Self::clear), like a restarting server.
    pub fn stop(&self) {
        self.orders.send_modify(|orders| {
            orders.traffic = Traffic::Refused;
            orders.restarts += 1;
        });
    }

    /// Delivers nothing until [`clear`](Self::clear); new connections are still accepted.
    pub fn hang(&self) {
        self.order(Traffic::Hangs);
    }

    /// Delays all traffic until [`clear`](Self::clear).
    pub fn slow_down(&self, each: Duration) {
        self.order(Traffic::Slow(each));
    }

    /// Simulates a failover to a server with all committed data. Connections to the old server hang without notice; new
    /// connections reach the new one.
    pub fn fail_over(&self) {
        self.orders.send_modify(|orders| orders.failovers += 1);
    }
}

async fn listen(listener: TcpListener, server: u16, state: Arc<State>, orders: Arc<watch::Sender<Orders>>) {
    while let Ok((client, _)) = listener.accept().await {
        let given = orders.subscribe();
        if given.borrow().traffic != Traffic::Refused {
            tokio::spawn(forward(client, server, Arc::clone(&state), given));
        }
    }
}

/// Reason why a direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Hangs,
    /// The server is gone without closing the connection.
    Orphaned,
}

async fn forward(mut client: TcpStream, server: u16, state: Arc<State>, orders: watch::Receiver<Orders>) {
    let Ok(mut server) = TcpStream::connect((HOST, server)).await else { return };
    let first = *orders.borrow();
    let connection = Connection { state: &state, orders: orders.clone(), is_committing: AtomicBool::new(false) };
    let hangs_on_commit = AtomicBool::new(false);
    let restarted = async |mut orders: watch::Receiver<Orders>| {
        // An error means that the proxy is gone.
        drop(orders.wait_for(|orders| orders.restarts != first.restarts).await);
    };
    let failed_over = async {
        let mut orders = orders.clone();
        drop(orders.wait_for(|orders| orders.failovers != first.failovers).await);
    };
    let end = {
        let (client_in, client_out) = client.split();
        let (server_in, server_out) = server.split();
        tokio::select! {
            end = connection.forward_requests(client_in, server_out, &hangs_on_commit) => end,
            end = connection.forward_responses(server_in, client_out, &hangs_on_commit) => end,
            () = restarted(orders.clone()) => End::Closed,
            () = failed_over => End::Orphaned,
        }
    };
    if end != End::Closed || orders.borrow().restarts != first.restarts {
        state.broken.fetch_add(1, Ordering::Relaxed);
    }
    if end == End::Closed {
        return;
    }
    // The server side stays open as long as the client's, unless the server is gone.
    let _server = (end == End::Hangs).then_some(server);
    let mut nowhere = [0; 4096];
    let unheard = pin!(async { while let Ok(1..) = client.read(&mut nowhere).await {} });
    tokio::select! {
        () = unheard => {}
        () = restarted(orders.clone()) => {}
    }
}

/// Message of the simple query protocol that sends `COMMIT`.
const COMMIT: &[u8] = b"COMMIT\0";

struct Connection<'s> {
    state: &'s State,
    orders: watch::Receiver<Orders>,
    is_committing: AtomicBool,
}

impl Connection<'_> {
    async fn forward_requests(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, hangs: &AtomicBool) -> End {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let piece = &buffer[..length];
            if let Some(offset) = piece.windows(COMMIT.len()).position(|window| window == COMMIT)
                && let Some(commit) = self.planned_commit()
            {
                match commit {
                    Commit::NotSent => return self.broken(),
                    Commit::Half => {
                        drop(to.write_all(&piece[..offset + COMMIT.len() / 2]).await);
                        return self.broken();
                    }
                    Commit::NotAnswered => self.is_committing.store(true, Ordering::Relaxed),
                    Commit::Hangs => {
                        hangs.store(true, Ordering::Relaxed);
                        self.is_committing.store(true, Ordering::Relaxed);
                    }
                }
            }
            if let Some(end) = self.pass(piece, &mut to).await {
                return end;
            }
        }
        End::Closed
    }

    async fn forward_responses(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, hangs: &AtomicBool) -> End {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if self.is_committing.load(Ordering::Relaxed) {
                return if hangs.load(Ordering::Relaxed) { End::Hangs } else { self.broken() };
            }
            if let Some(end) = self.pass(&buffer[..length], &mut to).await {
                return end;
            }
        }
        End::Closed
    }

    fn broken(&self) -> End {
        self.state.broken.fetch_add(1, Ordering::Relaxed);
        End::Closed
    }

    fn planned_commit(&self) -> Option<Commit> {
        let planned = self.state.planned.lock().take_if(|planned| matches!(planned, Break::Commit(_)))?;
        if let Break::Commit(commit) = planned { Some(commit) } else { None }
    }

    /// Forwards data up to the byte of the planned fault; returns how the connection ends there.
    async fn pass(&self, piece: &[u8], to: &mut WriteHalf<'_>) -> Option<End> {
        let start = self.state.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let planned = self.state.planned.lock().take_if(|planned| match planned {
            Break::EndAtByte(byte) | Break::HangAtByte(byte) => start + piece.len() as u64 >= *byte,
            Break::Commit(_) => false,
        });
        let (length, end) = match planned {
            Some(planned @ (Break::EndAtByte(byte) | Break::HangAtByte(byte))) => {
                let length = usize::try_from(byte.saturating_sub(start)).map_or(piece.len(), |at| at.min(piece.len()));
                let hangs = matches!(planned, Break::HangAtByte(_));
                (length, Some(if hangs { End::Hangs } else { self.broken() }))
            }
            _ => (piece.len(), None),
        };
        match self.write(&piece[..length], to).await {
            Ok(()) => end,
            Err(_) => Some(end.unwrap_or(End::Closed)),
        }
    }

    /// Writes according to the current traffic mode.
    async fn write(&self, mut piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        let mut orders = self.orders.clone();
        loop {
            let passes = orders.wait_for(|orders| orders.traffic != Traffic::Hangs).await.map(|orders| orders.traffic);
            let Ok(Traffic::Slow(each)) = passes else { return to.write_all(piece).await };
            tokio::time::sleep(each).await;
            let (now, later) = piece.split_at(piece.len().min(SLOW_BYTES));
            to.write_all(now).await?;
            if later.is_empty() {
                return Ok(());
            }
            piece = later;
        }
    }
}
