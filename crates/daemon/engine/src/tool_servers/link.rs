//! The link to one server: what its supervisor tells, and what it can be told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_base::{Clock, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::connect::Session;
use super::error::{Failure, ToolServerError};
use super::load::Spec;

/// Wishes that may wait; each is seen to within moments.
pub(super) const QUEUED_COMMANDS: usize = 64;

/// How it stands with a server, on this daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// Its tools are not offered.
    Disabled,
    /// Nothing runs; the next call connects.
    Disconnected,
    Connecting,
    Connected,
    Disconnecting,
    /// The last try failed, or the server died.
    Failed,
}

/// A command.
#[derive(Debug)]
pub(super) enum Command {
    /// Be connected, as registered here.
    Connect(Arc<Spec>),
    /// End the session; the next call opens another.
    Disconnect,
    /// The same, if no call is under way.
    Rest,
    /// Look whether the server still lives.
    Check,
    /// End the session and the supervisor.
    Close,
}

/// What the supervisor tells.
#[derive(Debug, Clone)]
pub(super) struct LinkState {
    pub(super) status: ServerStatus,
    pub(super) session: Option<Arc<Session>>,
    /// Of the last try, until one succeeds.
    pub(super) failure: Option<Arc<Failure>>,
    pub(super) connected_at: Option<Timestamp>,
    /// Tries that ended without a session.
    pub(super) tries_over: u64,
    /// Sessions that were lost.
    pub(super) losses: u64,
    /// Before this, calls are answered with the failure.
    pub(super) retry_at: Option<(Instant, Timestamp)>,
}

impl LinkState {
    pub(super) fn new() -> Self {
        Self {
            status: ServerStatus::Disconnected,
            session: None,
            failure: None,
            connected_at: None,
            tries_over: 0,
            losses: 0,
            retry_at: None,
        }
    }
}

/// What link and supervisor share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: watch::Sender<LinkState>,
    calls: AtomicUsize,
    last_used: Mutex<Timestamp>,
    clock: Clock,
}

impl Shared {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        let last_used = Mutex::new(clock.now());
        Arc::new(Self { state: watch::Sender::new(LinkState::new()), calls: AtomicUsize::new(0), last_used, clock })
    }

    pub(super) fn note_use(&self) {
        *self.last_used.lock() = self.clock.now();
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.load(Ordering::Acquire) > 0
    }
}

/// A call under way: the session is not ended for idleness.
#[derive(Debug)]
pub(super) struct CallUnderWay(Arc<Shared>);

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.0.note_use();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who wants a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A call, or an offer: not sooner than the pause after a failure is over.
    ByAgent,
    /// The owner: at once.
    ByOwner,
}

/// A handle on the supervisor.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) shared: Arc<Shared>,
}

impl Link {
    pub(super) fn state(&self) -> LinkState {
        self.shared.state.borrow().clone()
    }

    pub(super) fn last_used(&self) -> Timestamp {
        *self.shared.last_used.lock()
    }

    pub(super) fn begin_call(&self) -> CallUnderWay {
        self.shared.calls.fetch_add(1, Ordering::AcqRel);
        self.shared.note_use();
        CallUnderWay(Arc::clone(&self.shared))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.shared.has_calls()
    }

    /// Whether the supervisor is there.
    pub(super) fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Tells without waiting.
    pub(super) fn tell(&self, command: Command) -> Result<(), ToolServerError> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ToolServerError::Busy,
            mpsc::error::TrySendError::Closed(_) => ToolServerError::GoingDown,
        })
    }

    /// The session, opened if there is none. Dropping the future leaves the opening under way.
    pub(super) async fn session(&self, spec: &Arc<Spec>, wanted: Wanted) -> Result<Arc<Session>, ToolServerError> {
        let mut states = self.shared.state.subscribe();
        let fits = |state: &LinkState| {
            let session = state.session.as_ref()?;
            let is_alive = session.revision == spec.revision && session.connection.close_reason().is_none();
            is_alive.then(|| Arc::clone(session))
        };
        let tries_over = {
            let state = states.borrow_and_update();
            if let Some(session) = fits(&state) {
                return Ok(session);
            }
            if wanted == Wanted::ByAgent
                && let (Some(failure), Some((at, retry_at))) = (&state.failure, state.retry_at)
                && at > Instant::now()
            {
                let message = format!("{}; it is tried again at {retry_at}", failure.message);
                return Err(ToolServerError::Failed(Failure { message, ..Failure::clone(failure) }));
            }
            state.tries_over
        };
        self.tell(Command::Connect(Arc::clone(spec)))?;
        loop {
            states.changed().await.map_err(|_| ToolServerError::GoingDown)?;
            let state = states.borrow_and_update();
            if let Some(session) = fits(&state) {
                return Ok(session);
            }
            if state.tries_over != tries_over {
                let failure = state.failure.as_deref().cloned();
                return Err(ToolServerError::Failed(failure.unwrap_or_else(disconnected)));
            }
        }
    }

    /// Ends the session and waits for its end.
    pub(super) async fn disconnect(&self) -> Result<(), ToolServerError> {
        let mut states = self.shared.state.subscribe();
        // What was lost or failed is put to rest, too.
        self.tell(Command::Disconnect)?;
        let is_over = |state: &LinkState| state.status == ServerStatus::Disconnected;
        states.wait_for(is_over).await.map(|_| ()).map_err(|_| ToolServerError::GoingDown)
    }
}

fn disconnected() -> Failure {
    Failure {
        code: "tool_server_not_connected",
        message: "the tool server was disconnected before it was connected".to_owned(),
        is_ours: false,
        diagnosis: String::new(),
    }
}
