//! Tests of the timing of a connection, with a fake socket.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentd_base::Timestamp;
use axum::extract::ws::Message;
use futures_util::{Sink, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Connection, Ending, read_frames, write_frames};
use crate::devices::model::{Device, DeviceId};

/// Accepts every message, or none when `is_stuck` is set.
struct FakeSocket {
    incoming: mpsc::UnboundedReceiver<Message>,
    outgoing: mpsc::UnboundedSender<Message>,
    is_stuck: bool,
}

impl Stream for FakeSocket {
    type Item = Result<Message, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.incoming.poll_recv(context).map(|message| message.map(Ok))
    }
}

impl Sink<Message> for FakeSocket {
    type Error = axum::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        if self.is_stuck { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
        self.outgoing.send(message).map_err(axum::Error::new)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Poll::Ready(Ok(()))
    }
}

struct RemoteEnd {
    to_daemon: mpsc::UnboundedSender<Message>,
    from_daemon: mpsc::UnboundedReceiver<Message>,
}

fn socket(is_stuck: bool) -> (FakeSocket, RemoteEnd) {
    let (to_daemon, incoming) = mpsc::unbounded_channel();
    let (outgoing, from_daemon) = mpsc::unbounded_channel();
    (FakeSocket { incoming, outgoing, is_stuck }, RemoteEnd { to_daemon, from_daemon })
}

fn connection() -> (Arc<Connection>, mpsc::Receiver<String>) {
    let device = Device {
        id: DeviceId::from("dev_1"),
        name: "laptop".to_owned(),
        slug: "laptop".to_owned(),
        platform: "linux".to_owned(),
        metadata: serde_json::Map::new(),
        created_at: Timestamp::default(),
        last_seen_at: None,
    };
    Connection::new("c1".to_owned(), device)
}

#[tokio::test(start_paused = true)]
async fn silent_device_is_disconnected_after_a_minute() {
    let (connection, _frames) = connection();
    let (socket, far) = socket(false);
    let (_sink, mut stream) = socket.split();
    let started = Instant::now();
    let sending = async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        // A pong resets the timeout.
        far.to_daemon.send(Message::Pong(bytes::Bytes::new())).unwrap();
        std::future::pending::<()>().await;
    };
    let ending = tokio::select! {
        ending = read_frames(None, &connection, &mut stream) => ending,
        () = sending => unreachable!(),
    };
    assert_eq!((ending, started.elapsed()), (Ending::Silent, Duration::from_secs(110)));
}

#[tokio::test(start_paused = true)]
async fn device_is_pinged_every_20_seconds() {
    let (connection, frames) = connection();
    let (socket, mut far) = socket(false);
    let (mut sink, _stream) = socket.split();
    let started = Instant::now();
    let writing = tokio::spawn(async move { write_frames(&connection, &mut sink, frames).await });
    let hello = far.from_daemon.recv().await.unwrap();
    assert!(hello.to_text().unwrap().contains(r#""type":"hello""#));
    for ping in 1..=3 {
        assert!(matches!(far.from_daemon.recv().await, Some(Message::Ping(_))));
        assert_eq!(started.elapsed(), Duration::from_secs(20 * ping));
    }
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn device_that_does_not_read_is_disconnected() {
    let (connection, frames) = connection();
    let (socket, _far) = socket(true);
    let (mut sink, _stream) = socket.split();
    assert_eq!(write_frames(&connection, &mut sink, frames).await, Ending::Silent);
}

#[tokio::test]
async fn close_twice_keeps_first_reason() {
    let (connection, _frames) = connection();
    connection.close(Ending::Revoked);
    connection.close(Ending::ShuttingDown);
    assert_eq!(*connection.closing.borrow(), Some(Ending::Revoked));
}
