//! Efficient HTTP client: plain persistent sockets, with a minimum of parsing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Outcome;

/// Returns the bytes of a request.
#[must_use]
pub fn render(method: &str, path: &str, key: &str, body: Option<&str>, keep_open: bool) -> String {
    let authorization = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
    let content = body
        .map_or(String::new(), |body| format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    let connection = if keep_open { "" } else { "Connection: close\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}{connection}{content}\r\n{}",
        body.unwrap_or_default()
    )
}

/// Sends one request on its own connection; returns status and body.
///
/// # Errors
/// The connection fails or the response is not HTTP.
pub fn request(address: &str, method: &str, path: &str, key: &str, body: Option<&str>) -> Outcome<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(render(method, path, key, body, false).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
    Ok((status, body.to_owned()))
}

/// Persistent connection for consecutive requests.
#[derive(Debug)]
pub struct Connection {
    stream: tokio::net::TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    /// # Errors
    /// The connection is refused.
    pub async fn open(address: &str) -> Outcome<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request of [`render`] and returns status and body, which must have a length.
    ///
    /// # Errors
    /// The connection fails, or the response is not valid HTTP.
    pub async fn ask(&mut self, request: &[u8]) -> Outcome<(u16, String)> {
        self.stream.write_all(request).await?;
        self.bytes.clear();
        let mut expected = None;
        loop {
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                return Err("the connection was closed".into());
            }
            if expected.is_none()
                && let Some(end) = self.bytes.windows(4).position(|window| window == b"\r\n\r\n")
            {
                let head = String::from_utf8_lossy(&self.bytes[..end]).to_ascii_lowercase();
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
                let length: usize = length.and_then(|length| length.trim().parse().ok()).ok_or("no Content-Length")?;
                expected = Some((status, end + 4, end + 4 + length));
            }
            if let Some((status, from, to)) = expected
                && self.bytes.len() >= to
            {
                return Ok((status, String::from_utf8_lossy(&self.bytes[from..to]).into_owned()));
            }
        }
    }
}

/// Repeats a request on `connections` connections for `duration` and returns the rate per second. Every response must
/// be 200.
///
/// # Errors
/// A connection fails or a response is not 200.
pub async fn requests_per_second(
    address: &str,
    path: &str,
    key: &str,
    connections: usize,
    duration: Duration,
) -> Outcome<f64> {
    let request = Arc::new(render("GET", path, key, None, true).into_bytes());
    let answered = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (request, answered) = (Arc::clone(&request), Arc::clone(&answered));
        tasks.push(tokio::spawn(async move {
            let mut buffer = vec![0u8; 64 * 1024];
            while started.elapsed() < duration {
                stream.write_all(&request).await?;
                read_answer(&mut stream, &mut buffer).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    let count = answered.load(Ordering::Relaxed) as f64;
    Ok(count / started.elapsed().as_secs_f64())
}

async fn read_answer(stream: &mut tokio::net::TcpStream, buffer: &mut [u8]) -> Outcome<()> {
    let mut filled = 0;
    let mut expected = None;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err("the connection was closed".into());
        }
        filled += read;
        if expected.is_none()
            && let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            if !head.starts_with("http/1.1 200") {
                return Err(format!("an answer was not 200: {head}").into());
            }
            let length = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.trim().parse::<usize>().ok());
            expected = Some(end + 4 + length.ok_or("no Content-Length")?);
        }
        if expected.is_some_and(|expected| filled >= expected) {
            return Ok(());
        }
    }
}

/// Timing and body of a streamed reply.
#[derive(Debug)]
pub struct StreamedReply {
    pub first_token: Duration,
    pub whole: Duration,
    /// Body including chunk framing.
    pub body: String,
}

/// Sends a request and reads its event stream to the end. `first_mark` is the byte sequence of the first token.
///
/// # Errors
/// The connection fails.
pub async fn streamed(address: &str, request: &[u8], first_mark: &str, end_mark: &str) -> Outcome<StreamedReply> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    streamed_on(&mut stream, request, first_mark, end_mark).await
}

/// Like [`streamed`], on an open connection that stays open.
///
/// # Errors
/// The connection fails.
pub async fn streamed_on(
    stream: &mut tokio::net::TcpStream,
    request: &[u8],
    first_mark: &str,
    end_mark: &str,
) -> Outcome<StreamedReply> {
    let started = Instant::now();
    stream.write_all(request).await?;
    let mut bytes = Vec::with_capacity(16 * 1024);
    let mut first_token = None;
    let mut buffer = [0u8; 16 * 1024];
    let contains = |bytes: &[u8], mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    let mut whole_length = None;
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..read]);
        if first_token.is_none() && contains(&bytes, first_mark) {
            first_token = Some(started.elapsed());
        }
        if whole_length.is_none()
            && let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            whole_length = Some(length.map(|length| end + 4 + length));
        }
        let is_whole = match whole_length {
            Some(Some(length)) => bytes.len() >= length,
            Some(None) => bytes.ends_with(b"0\r\n\r\n"),
            None => false,
        };
        if is_whole {
            break;
        }
    }
    if !contains(&bytes, end_mark) {
        return Err(format!("the end is missing: {}", String::from_utf8_lossy(&bytes)).into());
    }
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let first_token = first_token.ok_or_else(|| format!("no token came: {body}"))?;
    Ok(StreamedReply { first_token, whole: started.elapsed(), body })
}
