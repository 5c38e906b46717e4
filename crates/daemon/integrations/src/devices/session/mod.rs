//! The lifetime of one connection.

mod chat;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use agentd_conversation::chat::Chat;
use agentd_store::Tx;
use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use self::chat::{ChatFrame, MAX_REPLIES, forward_reply};
use crate::devices::connection::{Connection, Ending, register};
use crate::devices::model::{Device, DeviceFrame, Pace, parse, to_device};
use crate::devices::service::{DEVICES, Devices};
use crate::devices::store;

const PING_INTERVAL: Duration = Duration::from_secs(20);
/// A device that sends nothing for this long, not even a pong, is disconnected.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// A device that does not receive a frame within this time is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval at which the last seen time of the device is stored.
const LAST_SEEN_INTERVAL: Duration = Duration::from_secs(30);
const MAX_MALFORMED: u32 = 5;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Duration for which incoming frames are drained after the close frame was sent. Closing the socket with unread data
/// could prevent the device from receiving the close frame.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

type Outgoing<S> = SplitSink<S, Message>;
type Incoming<S> = SplitStream<S>;

impl Devices {
    /// Serves an authenticated device until the connection ends.
    pub(crate) async fn serve(self, device: Device, socket: WebSocket) {
        let context = self.context();
        // Subscribed before the row is written, so that later changes are noticed.
        let changes = context.db.watch(DEVICES);
        let (connection, frames) = Connection::new(context.ids.next_ulid(), device);
        let (mut sink, mut stream) = socket.split();
        let ending = match self.attach(&connection).await {
            Err(ending) => ending,
            Ok(()) => {
                tracing::info!(device = %connection.device.id, name = connection.device.name, "device connected");
                let exchange_frames = exchange(self.chat(), &connection, &mut sink, &mut stream, frames);
                tokio::select! {
                    biased;
                    ending = closing(&connection) => ending,
                    ending = self.watch_row(&connection, changes) => ending,
                    ending = exchange_frames => ending,
                }
            }
        };
        self.connections().leave(&connection);
        connection.end_calls();
        tracing::info!(device = %connection.device.id, name = connection.device.name, ?ending, "device connection ended");
        send_close_frame(&mut sink, ending).await;
        self.detach(&connection).await;
        connection.closed.cancel();
        if ending != Ending::Disconnected {
            drain_incoming(&mut sink, &mut stream).await;
        }
    }

    /// Makes this the current connection of the device, in the database and in the registry.
    async fn attach(&self, connection: &Arc<Connection>) -> Result<(), Ending> {
        let _joining = self.connections().join().await;
        let context = self.context();
        let (id, name, instance) = (connection.device.id.clone(), connection.id.clone(), Arc::clone(&context.instance));
        let attached = context.db.write_relaxed(async move |tx: &mut Tx| {
            let is_there = store::attach(tx, &id, &name, &instance).await?;
            tx.touch(DEVICES);
            Ok::<_, agentd_store::StoreError>(is_there)
        });
        match attached.await {
            Ok(true) => self.connections().enter(connection),
            // The device was removed after its token was looked up.
            Ok(false) => Err(Ending::Revoked),
            Err(error) => {
                tracing::warn!(%error, "failed to attach device connection");
                Err(Ending::Unavailable)
            }
        }
    }

    async fn detach(&self, connection: &Connection) {
        let (id, name) = (connection.device.id.clone(), connection.id.clone());
        let detach = async move |tx: &mut Tx| store::detach(tx, &id, &name).await;
        if let Err(error) = self.context().db.write_relaxed(detach).await {
            tracing::debug!(%error, "failed to record end of device connection");
        }
    }

    /// Waits until the device's row holds another connection or is deleted, and updates the last seen time
    /// periodically.
    async fn watch_row(&self, connection: &Connection, mut changes: watch::Receiver<u64>) -> Ending {
        let db = &self.context().db;
        loop {
            let is_change = tokio::select! {
                changed = changes.changed() => changed.is_ok(),
                () = sleep(LAST_SEEN_INTERVAL) => false,
            };
            let id = connection.device.id.clone();
            if !is_change {
                let (id, name) = (id.clone(), connection.id.clone());
                match db.write_relaxed(async move |tx: &mut Tx| store::touch(tx, &id, &name).await).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::debug!(%error, "failed to record device last seen time");
                        continue;
                    }
                }
            }
            let found = match db.read().await {
                Ok(mut read) => store::find_connection(&mut read, &id).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(None) => return Ending::Revoked,
                Ok(Some(named)) if named.as_deref() != Some(&*connection.id) => return Ending::Replaced,
                Ok(Some(_)) => {}
                // Retried at the next interval.
                Err(error) => tracing::debug!(%error, "failed to read device row"),
            }
        }
    }
}

async fn closing(connection: &Connection) -> Ending {
    let mut closing = connection.closing.subscribe();
    let ending = closing.wait_for(Option::is_some).await.ok().and_then(|ending| *ending);
    ending.unwrap_or(Ending::Disconnected)
}

/// Reads and writes frames until either side ends the connection.
pub(super) async fn exchange<S>(
    chat: &Chat,
    connection: &Arc<Connection>,
    sink: &mut Outgoing<S>,
    stream: &mut Incoming<S>,
    frames: mpsc::Receiver<String>,
) -> Ending
where
    S: Sink<Message, Error = axum::Error> + Stream<Item = Result<Message, axum::Error>>,
{
    tokio::select! {
        ending = read_frames(Some(chat), connection, stream) => ending,
        ending = write_frames(connection, sink, frames) => ending,
    }
}

pub(super) async fn write_frames<S>(
    connection: &Connection,
    sink: &mut Outgoing<S>,
    mut frames: mpsc::Receiver<String>,
) -> Ending
where
    S: Sink<Message, Error = axum::Error>,
{
    let mut ping = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Some(to_device::hello(&connection.device));
    loop {
        let message = match next.take() {
            Some(first) => Message::text(first),
            None => tokio::select! {
                frame = frames.recv() => match frame {
                    Some(frame) => Message::text(frame),
                    None => return Ending::Disconnected,
                },
                _ = ping.tick() => Message::Ping(bytes::Bytes::new()),
            },
        };
        match timeout(WRITE_TIMEOUT, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ending::Disconnected,
            Err(_) => return Ending::Silent,
        }
    }
}

pub(super) async fn read_frames<S>(
    chat: Option<&Chat>,
    connection: &Arc<Connection>,
    stream: &mut Incoming<S>,
) -> Ending
where
    S: Stream<Item = Result<Message, axum::Error>>,
{
    let (mut pace, mut last) = (Pace::new(), Instant::now());
    let mut malformed = 0;
    // The tasks are aborted when the connection ends.
    let mut replies = JoinSet::new();
    loop {
        let message = match timeout(SILENCE_TIMEOUT, stream.next()).await {
            Err(_) => return Ending::Silent,
            Ok(None) => return Ending::Disconnected,
            Ok(Some(Err(error))) => return read_error_ending(&error),
            Ok(Some(Ok(message))) => message,
        };
        let now = Instant::now();
        let pause = pace.count(now.duration_since(last));
        last = now;
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let text = match &message {
            Message::Text(text) => text.as_str(),
            Message::Close(_) => return Ending::Disconnected,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Binary(_) => "",
        };
        let problem = match parse(text) {
            Ok(frame) => handle(chat, connection, frame, &mut replies).await.err(),
            Err(wrong) => Some((wrong.id, "malformed_frame", wrong.problem)),
        };
        let Some((id, code, sentence)) = problem else {
            malformed = 0;
            continue;
        };
        connection.send_error(id.as_deref(), code, &sentence).await;
        if matches!(code, "malformed_frame" | "invalid_tools") {
            malformed += 1;
        }
        if malformed >= MAX_MALFORMED {
            return Ending::Malformed;
        }
    }
}

type RejectedFrame = (Option<String>, &'static str, String);

async fn handle(
    chat: Option<&Chat>,
    connection: &Arc<Connection>,
    frame: DeviceFrame,
    replies: &mut JoinSet<()>,
) -> Result<(), RejectedFrame> {
    match frame {
        DeviceFrame::ToolResult { id, result } => connection.answer(&id, result),
        DeviceFrame::RegisterTools { id, tools } => {
            let device = connection.device.clone();
            // Compiling the schemas may take some time.
            let registered = tokio::task::spawn_blocking(move || register(&device, tools)).await;
            let registered = registered.unwrap_or_else(|_| Err("failed to process the tools".to_owned()));
            *connection.tools.write() = registered.map_err(|problem| (id, "invalid_tools", problem))?;
        }
        DeviceFrame::Chat { id, agent, content, conversation_id } => {
            while replies.try_join_next().is_some() {}
            if replies.len() >= MAX_REPLIES {
                let sentence =
                    format!("limit of concurrent replies reached ({MAX_REPLIES}); wait for a reply to finish");
                return Err((id, "too_many_replies", sentence));
            }
            if let Some(chat) = chat {
                let frame = ChatFrame { id, agent, content, conversation_id };
                replies.spawn(forward_reply(chat.clone(), Arc::clone(connection), frame));
            }
        }
    }
    Ok(())
}

/// Maps a read error to the reason why the connection ended.
fn read_error_ending(error: &axum::Error) -> Ending {
    let inner = error.source().and_then(|source| source.downcast_ref::<tungstenite::Error>());
    match inner {
        Some(tungstenite::Error::Capacity(_)) => Ending::TooLarge,
        Some(tungstenite::Error::Utf8(_)) => Ending::NotUtf8,
        // A connection that was reset is not a protocol violation.
        Some(tungstenite::Error::Protocol(
            ProtocolError::ResetWithoutClosingHandshake | ProtocolError::ReceivedAfterClosing,
        )) => Ending::Disconnected,
        Some(tungstenite::Error::Protocol(_)) => Ending::ProtocolViolation,
        _ => Ending::Disconnected,
    }
}

async fn send_close_frame<S>(sink: &mut Outgoing<S>, ending: Ending)
where
    S: Sink<Message, Error = axum::Error>,
{
    let closing_frame = sink.send(Message::Close(Some(ending.frame())));
    if !matches!(timeout(CLOSE_TIMEOUT, closing_frame).await, Ok(Ok(()))) {
        tracing::debug!(?ending, "device disconnected without close frame");
    }
}

async fn drain_incoming<S>(sink: &mut Outgoing<S>, stream: &mut Incoming<S>)
where
    S: Sink<Message, Error = axum::Error> + Stream<Item = Result<Message, axum::Error>>,
{
    let reading = async { while let Some(Ok(_)) = stream.next().await {} };
    let _ = timeout(DRAIN_TIMEOUT, reading).await;
    let _ = timeout(DRAIN_TIMEOUT, sink.close()).await;
}
