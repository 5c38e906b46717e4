//! The WebSocket connections of devices: at most one per device, with its tools and pending calls.

mod registered;
mod registry;
mod tools;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::ws::{CloseFrame, close_code};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::model::{Device, to_device};
use registered::RegisteredTool;

pub(super) use registered::register;
pub(super) use registry::Connections;
pub use registry::SocketsClosed;
pub(super) use tools::device_tools;

/// The maximum size of a frame from a device.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 20;
/// The maximum number of pending calls per device.
const MAX_CALLS: usize = 32;
/// The capacity of the queue of outgoing frames; senders wait while it is full.
const MAX_QUEUED_FRAMES: usize = 64;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The device disconnected.
    Disconnected,
    /// The device was silent or did not read for too long.
    Silent,
    Replaced,
    Revoked,
    ShuttingDown,
    /// The daemon is about to restore a backup.
    Paused,
    /// The device sent too many malformed frames in a row.
    Malformed,
    TooLarge,
    /// The device violated the WebSocket protocol.
    ProtocolViolation,
    NotUtf8,
    /// The database is unavailable.
    Unavailable,
}

impl Ending {
    pub(super) fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Disconnected => (close_code::NORMAL, "bye"),
            Self::Silent => (close_code::POLICY, "the device was silent for too long"),
            // Custom close codes for the cases in which the device must not reconnect.
            Self::Replaced => (4001, "replaced by another connection with this token"),
            Self::Revoked => (4003, "the device was removed; pair it again with a new code"),
            Self::ShuttingDown => (close_code::AWAY, "the daemon is shutting down"),
            Self::Paused => (close_code::RESTART, "the daemon is restoring a backup; reconnect shortly"),
            Self::Malformed => (close_code::POLICY, "too many malformed frames"),
            Self::TooLarge => (close_code::SIZE, "a frame exceeded 1 MiB"),
            Self::ProtocolViolation => (close_code::PROTOCOL, "a frame violated the WebSocket protocol"),
            Self::NotUtf8 => (close_code::INVALID, "a text frame was not valid UTF-8"),
            Self::Unavailable => (close_code::AGAIN, "the database is unavailable; reconnect shortly"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// A device's answer to a tool call.
type CallAnswer = Result<Value, String>;

/// The connection of one device.
pub(super) struct Connection {
    pub(super) id: String,
    pub(super) device: Device,
    pub(super) outgoing: mpsc::Sender<String>,
    pub(super) tools: RwLock<Arc<[Arc<RegisteredTool>]>>,
    /// At most [`MAX_CALLS`] entries; dropping an entry tells the caller that the device disconnected.
    calls: Mutex<Calls>,
    pub(super) closing: watch::Sender<Option<Ending>>,
    /// Cancelled once the close frame was sent, or sending it failed.
    pub(super) closed: CancellationToken,
}

#[derive(Default)]
struct Calls {
    waiting: HashMap<String, oneshot::Sender<CallAnswer>>,
    is_closed: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("device", &self.device.id).finish_non_exhaustive()
    }
}

impl Connection {
    /// Returns the connection and the receiver of the frames to send.
    pub(super) fn new(id: String, device: Device) -> (Arc<Self>, mpsc::Receiver<String>) {
        let (outgoing, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
        let connection = Self {
            id,
            device,
            outgoing,
            tools: RwLock::new(Arc::default()),
            calls: Mutex::default(),
            closing: watch::Sender::new(None),
            closed: CancellationToken::new(),
        };
        (Arc::new(connection), frames)
    }

    /// Requests that the connection ends; only the first reason is kept.
    pub(super) fn close(&self, ending: Ending) {
        self.closing.send_if_modified(|closing| {
            let is_first = closing.is_none();
            closing.get_or_insert(ending);
            is_first
        });
    }

    fn registered(&self) -> Arc<[Arc<RegisteredTool>]> {
        Arc::clone(&self.tools.read())
    }

    /// The name and description of each registered tool.
    pub(super) fn describe_tools(&self) -> Vec<(String, String)> {
        let described =
            |tool: &Arc<RegisteredTool>| (tool.description.name.clone(), tool.description.description.clone());
        self.registered().iter().map(described).collect()
    }

    pub(super) fn answer(&self, call: &str, answer: CallAnswer) {
        let waiting = self.calls.lock().waiting.remove(call);
        // A late answer, to a call that is no longer pending, is not an error of the device.
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Fails every pending call and rejects new ones.
    pub(super) fn end_calls(&self) {
        let mut calls = self.calls.lock();
        calls.is_closed = true;
        calls.waiting.clear();
    }

    pub(super) async fn send_error(&self, id: Option<&str>, code: &str, message: &str) {
        // Sending fails only when the connection has ended.
        let _ = self.outgoing.send(to_device::error(id, code, message)).await;
    }
}

/// The number of tool calls by outcome.
#[derive(Debug, Default)]
pub struct CallCounts {
    done: AtomicU64,
    failed: AtomicU64,
    /// The caller stopped waiting: cancelled or timed out.
    abandoned: AtomicU64,
}

impl CallCounts {
    /// Each outcome with its count.
    #[must_use]
    pub fn read(&self) -> [(&'static str, u64); 3] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("done", read(&self.done)), ("failed", read(&self.failed)), ("abandoned", read(&self.abandoned))]
    }
}
