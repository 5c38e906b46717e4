//! One connection from its first frame to its last.

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

use self::chat::{ChatFrame, MAX_REPLIES, talk};
use crate::devices::connection::{Connection, Ending, register};
use crate::devices::model::{Device, DeviceFrame, Pace, parse, to_device};
use crate::devices::service::{DEVICES, Devices};
use crate::devices::store;

const PING_EVERY: Duration = Duration::from_secs(20);
/// A device that sends nothing for so long, not even the answer to a ping, is gone.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// A device that does not take a frame for so long is gone, too.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// How often the row says that the device is still there.
const BETWEEN_SIGHTS: Duration = Duration::from_secs(30);
const MAX_MALFORMED: u32 = 5;
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// What a device sent before it read the close frame is read away for so long: to close over it
/// would take the frame's reason from the device.
const LINGER: Duration = Duration::from_secs(1);

type Outgoing<S> = SplitSink<S, Message>;
type Incoming<S> = SplitStream<S>;

impl Devices {
    /// Serves a device whose token was good, until the connection ends.
    pub(crate) async fn serve(self, device: Device, socket: WebSocket) {
        let context = self.context();
        // Before the row is written: what changes it afterwards is noticed.
        let changes = context.db.watch(DEVICES);
        let (connection, frames) = Connection::new(context.ids.next_ulid(), device);
        let (mut sink, mut stream) = socket.split();
        let ending = match self.begin(&connection).await {
            Err(ending) => ending,
            Ok(()) => {
                tracing::info!(device = %connection.device.id, name = connection.device.name, "a device connected");
                let talking = exchange(self.chat(), &connection, &mut sink, &mut stream, frames);
                tokio::select! {
                    biased;
                    ending = closing(&connection) => ending,
                    ending = self.stay_in_force(&connection, changes) => ending,
                    ending = talking => ending,
                }
            }
        };
        self.connections().leave(&connection);
        connection.end_calls();
        tracing::info!(device = %connection.device.id, name = connection.device.name, ?ending, "a device's connection ended");
        say_farewell(&mut sink, ending).await;
        self.detach(&connection).await;
        connection.over.cancel();
        if ending != Ending::Gone {
            read_away(&mut sink, &mut stream).await;
        }
    }

    /// Makes the connection the one in force, in the row and here.
    async fn begin(&self, connection: &Arc<Connection>) -> Result<(), Ending> {
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
            // It was removed after its token was looked up.
            Ok(false) => Err(Ending::Revoked),
            Err(error) => {
                tracing::warn!(%error, "a device cannot connect");
                Err(Ending::Unavailable)
            }
        }
    }

    async fn detach(&self, connection: &Connection) {
        let (id, name) = (connection.device.id.clone(), connection.id.clone());
        let detach = async move |tx: &mut Tx| store::detach(tx, &id, &name).await;
        if let Err(error) = self.context().db.write_relaxed(detach).await {
            tracing::debug!(%error, "the end of a device's connection was not noted");
        }
    }

    /// Answers when the row does not name this connection any more; says now and then that the
    /// device is there.
    async fn stay_in_force(&self, connection: &Connection, mut changes: watch::Receiver<u64>) -> Ending {
        let db = &self.context().db;
        loop {
            let is_change = tokio::select! {
                changed = changes.changed() => changed.is_ok(),
                () = sleep(BETWEEN_SIGHTS) => false,
            };
            let id = connection.device.id.clone();
            if !is_change {
                let (id, name) = (id.clone(), connection.id.clone());
                match db.write_relaxed(async move |tx: &mut Tx| store::touch(tx, &id, &name).await).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::debug!(%error, "that a device is there was not noted");
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
                // The next sight asks again.
                Err(error) => tracing::debug!(%error, "a device's row could not be read"),
            }
        }
    }
}

async fn closing(connection: &Connection) -> Ending {
    let mut closing = connection.closing.subscribe();
    let ending = closing.wait_for(Option::is_some).await.ok().and_then(|ending| *ending);
    ending.unwrap_or(Ending::Gone)
}

/// Reads and writes frames until one side of it ends.
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
    let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Some(to_device::hello(&connection.device));
    loop {
        let message = match next.take() {
            Some(first) => Message::text(first),
            None => tokio::select! {
                frame = frames.recv() => match frame {
                    Some(frame) => Message::text(frame),
                    None => return Ending::Gone,
                },
                _ = ping.tick() => Message::Ping(bytes::Bytes::new()),
            },
        };
        match timeout(WRITE_LIMIT, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ending::Gone,
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
    // Dropped with the connection: nobody follows those replies here any more.
    let mut replies = JoinSet::new();
    loop {
        let message = match timeout(SILENT_AFTER, stream.next()).await {
            Err(_) => return Ending::Silent,
            Ok(None) => return Ending::Gone,
            Ok(Some(Err(error))) => return ending_of(&error),
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
            Message::Close(_) => return Ending::Gone,
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

type Refused = (Option<String>, &'static str, String);

async fn handle(
    chat: Option<&Chat>,
    connection: &Arc<Connection>,
    frame: DeviceFrame,
    replies: &mut JoinSet<()>,
) -> Result<(), Refused> {
    match frame {
        DeviceFrame::ToolResult { id, result } => connection.answer(&id, result),
        DeviceFrame::RegisterTools { id, tools } => {
            let device = connection.device.clone();
            // Schemas are compiled, which may take a while.
            let registered = tokio::task::spawn_blocking(move || register(&device, tools)).await;
            let registered = registered.unwrap_or_else(|_| Err("the tools could not be read".to_owned()));
            *connection.tools.write() = registered.map_err(|problem| (id, "invalid_tools", problem))?;
        }
        DeviceFrame::Chat { id, agent, content, conversation_id } => {
            while replies.try_join_next().is_some() {}
            if replies.len() >= MAX_REPLIES {
                let sentence = format!("{MAX_REPLIES} replies are under way over this connection; wait for one's end");
                return Err((id, "too_many_replies", sentence));
            }
            if let Some(chat) = chat {
                let frame = ChatFrame { id, agent, content, conversation_id };
                replies.spawn(talk(chat.clone(), Arc::clone(connection), frame));
            }
        }
    }
    Ok(())
}

/// What it means that nothing more can be read.
fn ending_of(error: &axum::Error) -> Ending {
    let inner = error.source().and_then(|source| source.downcast_ref::<tungstenite::Error>());
    match inner {
        Some(tungstenite::Error::Capacity(_)) => Ending::TooLarge,
        Some(tungstenite::Error::Utf8(_)) => Ending::NotUtf8,
        // A socket that is simply gone is no fault.
        Some(tungstenite::Error::Protocol(
            ProtocolError::ResetWithoutClosingHandshake | ProtocolError::ReceivedAfterClosing,
        )) => Ending::Gone,
        Some(tungstenite::Error::Protocol(_)) => Ending::Unruly,
        _ => Ending::Gone,
    }
}

async fn say_farewell<S>(sink: &mut Outgoing<S>, ending: Ending)
where
    S: Sink<Message, Error = axum::Error>,
{
    let farewell = sink.send(Message::Close(Some(ending.frame())));
    if !matches!(timeout(FAREWELL_LIMIT, farewell).await, Ok(Ok(()))) {
        tracing::debug!(?ending, "a device was cut off without a reason");
    }
}

async fn read_away<S>(sink: &mut Outgoing<S>, stream: &mut Incoming<S>)
where
    S: Sink<Message, Error = axum::Error> + Stream<Item = Result<Message, axum::Error>>,
{
    let reading = async { while let Some(Ok(_)) = stream.next().await {} };
    let _ = timeout(LINGER, reading).await;
    let _ = timeout(LINGER, sink.close()).await;
}
