//! Receiver of all deliveries.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Received delivery: its path, the event's number, and its time.
pub(crate) type Arrival = (String, usize, Instant);

/// Accepts all requests and reports the time and path of each.
pub(crate) struct Sink {
    address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

impl Sink {
    pub(crate) async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move { drop(serve(stream, sender).await) });
            }
        });
        Ok(Self { address, arrivals })
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Waits for the next `count` arrivals.
    pub(crate) async fn take(&mut self, count: usize) -> Outcome<Vec<Arrival>> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(120), self.arrivals.recv()).await;
            let next = next.map_err(|_| format!("only {} of {count} arrived", taken.len()))?;
            taken.push(next.ok_or("the sink has ended")?);
        }
        Ok(taken)
    }
}

async fn serve(mut stream: TcpStream, sender: mpsc::UnboundedSender<Arrival>) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::with_capacity(16 * 1024);
    loop {
        let (end, length, path) = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
                let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or_default();
                let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                break (end + 4, length, path);
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        while bytes.len() < end + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let arrived = Instant::now();
        let event: Value = serde_json::from_slice(&bytes[end..end + length])?;
        let number = event["data"]["n"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
        sender.send((path, number, arrived))?;
        bytes.drain(..end + length);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of deliveries")]
pub(crate) fn rate(arrivals: &[Arrival]) -> f64 {
    let first = arrivals.iter().map(|(_, _, at)| *at).min();
    let last = arrivals.iter().map(|(_, _, at)| *at).max();
    let (Some(first), Some(last)) = (first, last) else { return 0.0 };
    arrivals.len() as f64 / last.duration_since(first).as_secs_f64()
}
