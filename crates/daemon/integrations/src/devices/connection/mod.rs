//! The sockets of devices: one each, and what goes on over it.

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

/// The largest frame that a device may send.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 20;
/// Calls that a device may be working on.
const MAX_CALLS: usize = 32;
/// Frames that wait for a device to read them; who sends more waits.
const MAX_WAITING_FRAMES: usize = 64;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The device went away by itself.
    Gone,
    /// It was not heard of for too long, or does not read.
    Silent,
    Replaced,
    Revoked,
    GoingDown,
    /// A restore begins.
    Paused,
    /// Malformed frames, again and again.
    Malformed,
    TooLarge,
    /// What came breaks the rules of WebSockets.
    Unruly,
    NotUtf8,
    /// The database is away.
    Unavailable,
}

impl Ending {
    pub(super) fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Gone => (close_code::NORMAL, "bye"),
            Self::Silent => (close_code::POLICY, "the device was silent for too long"),
            // What a device must not answer by connecting again has a code of its own.
            Self::Replaced => (4001, "another connection with this token took the place of this one"),
            Self::Revoked => (4003, "the device was removed; pair it again with a new code"),
            Self::GoingDown => (close_code::AWAY, "the daemon is going down"),
            Self::Paused => (close_code::RESTART, "the daemon is restoring a backup; connect again shortly"),
            Self::Malformed => (close_code::POLICY, "too many malformed frames"),
            Self::TooLarge => (close_code::SIZE, "a frame was larger than 1 MiB"),
            Self::Unruly => (close_code::PROTOCOL, "a frame broke the rules of WebSockets"),
            Self::NotUtf8 => (close_code::INVALID, "a text frame was no UTF-8"),
            Self::Unavailable => (close_code::AGAIN, "the database is away; connect again shortly"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// What a device answered to a call.
type CallAnswer = Result<Value, String>;

/// The connection of one device.
pub(super) struct Connection {
    pub(super) id: String,
    pub(super) device: Device,
    pub(super) outgoing: mpsc::Sender<String>,
    pub(super) tools: RwLock<Arc<[Arc<RegisteredTool>]>>,
    /// At most [`MAX_CALLS`]; dropping an entry tells its caller that the device went away.
    calls: Mutex<Calls>,
    pub(super) closing: watch::Sender<Option<Ending>>,
    /// Cancelled when the device was told that it is over.
    pub(super) over: CancellationToken,
}

#[derive(Default)]
struct Calls {
    waiting: HashMap<String, oneshot::Sender<CallAnswer>>,
    is_over: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("device", &self.device.id).finish_non_exhaustive()
    }
}

impl Connection {
    /// With the frames that are to be sent.
    pub(super) fn new(id: String, device: Device) -> (Arc<Self>, mpsc::Receiver<String>) {
        let (outgoing, frames) = mpsc::channel(MAX_WAITING_FRAMES);
        let connection = Self {
            id,
            device,
            outgoing,
            tools: RwLock::new(Arc::default()),
            calls: Mutex::default(),
            closing: watch::Sender::new(None),
            over: CancellationToken::new(),
        };
        (Arc::new(connection), frames)
    }

    /// Asks the connection to end; the first reason counts.
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

    /// Name and description of each tool that is offered.
    pub(super) fn describe_tools(&self) -> Vec<(String, String)> {
        let described =
            |tool: &Arc<RegisteredTool>| (tool.description.name.clone(), tool.description.description.clone());
        self.registered().iter().map(described).collect()
    }

    pub(super) fn answer(&self, call: &str, answer: CallAnswer) {
        let waiting = self.calls.lock().waiting.remove(call);
        // An answer that nobody waits for came too late, which is no fault of the device.
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Fails every call that waits; none begins any more.
    pub(super) fn end_calls(&self) {
        let mut calls = self.calls.lock();
        calls.is_over = true;
        calls.waiting.clear();
    }

    pub(super) async fn send_error(&self, id: Option<&str>, code: &str, message: &str) {
        // An error says that the connection is over.
        let _ = self.outgoing.send(to_device::error(id, code, message)).await;
    }
}

/// How calls ended.
#[derive(Debug, Default)]
pub struct CallCounts {
    done: AtomicU64,
    failed: AtomicU64,
    /// Nobody waited for the answer any more: cancelled, or at the time limit.
    abandoned: AtomicU64,
}

impl CallCounts {
    /// Each way to end with its number.
    #[must_use]
    pub fn read(&self) -> [(&'static str, u64); 3] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("done", read(&self.done)), ("failed", read(&self.failed)), ("abandoned", read(&self.abandoned))]
    }
}
