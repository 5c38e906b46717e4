//! Link to one server: the state published by its supervisor and the commands to it.

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

/// Capacity of the command queue; each command is handled quickly.
pub(super) const COMMAND_QUEUE_CAPACITY: usize = 64;

/// Status of a server on this daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// Its tools are not offered.
    Disabled,
    /// Not connected; the next call connects.
    Disconnected,
    /// A connection is being established.
    Connecting,
    /// A session is open.
    Connected,
    /// The session is being closed.
    Disconnecting,
    /// The last connection attempt failed, or the session ended unexpectedly.
    Failed,
}

/// Command to a supervisor.
#[derive(Debug)]
pub(super) enum Command {
    /// Connect with this registration.
    Connect(Arc<Spec>),
    /// Close the session; the next call opens another.
    Disconnect,
    /// Close the session if no call is in progress.
    DisconnectIfIdle,
    /// Ping the server.
    Ping,
    /// Close the session and stop the supervisor.
    Close,
}

/// State published by the supervisor.
#[derive(Debug, Clone)]
pub(super) struct LinkState {
    pub(super) status: ServerStatus,
    pub(super) session: Option<Arc<Session>>,
    /// Failure of the last attempt, until one succeeds.
    pub(super) failure: Option<Arc<Failure>>,
    pub(super) connected_at: Option<Timestamp>,
    /// Number of attempts that ended without a session.
    pub(super) failed_attempts: u64,
    /// Number of lost sessions.
    pub(super) losses: u64,
    /// Earliest time of the next attempt for calls; until then they fail immediately.
    pub(super) retry_at: Option<(Instant, Timestamp)>,
}

impl LinkState {
    pub(super) fn new() -> Self {
        Self {
            status: ServerStatus::Disconnected,
            session: None,
            failure: None,
            connected_at: None,
            failed_attempts: 0,
            losses: 0,
            retry_at: None,
        }
    }
}

/// State shared by link and supervisor.
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

    pub(super) fn record_use(&self) {
        *self.last_used.lock() = self.clock.now();
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.load(Ordering::Acquire) > 0
    }
}

/// A call in progress: prevents the idle timeout of the session.
#[derive(Debug)]
pub(super) struct ActiveCall(Arc<Shared>);

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.record_use();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Requester of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    /// A call or an offer; respects the backoff.
    Agent,
    /// The owner; ignores the backoff.
    Owner,
}

/// Handle to a supervisor.
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

    pub(super) fn begin_call(&self) -> ActiveCall {
        self.shared.calls.fetch_add(1, Ordering::AcqRel);
        self.shared.record_use();
        ActiveCall(Arc::clone(&self.shared))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.shared.has_calls()
    }

    /// Whether the supervisor runs.
    pub(super) fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Sends a command without waiting.
    pub(super) fn send(&self, command: Command) -> Result<(), ToolServerError> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ToolServerError::Busy,
            mpsc::error::TrySendError::Closed(_) => ToolServerError::GoingDown,
        })
    }

    /// Returns the session; opens one if needed. Dropping the future does not abort the connection attempt.
    pub(super) async fn session(
        &self,
        spec: &Arc<Spec>,
        requester: Requester,
    ) -> Result<Arc<Session>, ToolServerError> {
        let mut states = self.shared.state.subscribe();
        let fits = |state: &LinkState| {
            let session = state.session.as_ref()?;
            let is_alive = session.revision == spec.revision && session.connection.close_reason().is_none();
            is_alive.then(|| Arc::clone(session))
        };
        let failed_attempts = {
            let state = states.borrow_and_update();
            if let Some(session) = fits(&state) {
                return Ok(session);
            }
            if requester == Requester::Agent
                && let (Some(failure), Some((at, retry_at))) = (&state.failure, state.retry_at)
                && at > Instant::now()
            {
                let message = format!("{}; next attempt at {retry_at}", failure.message);
                return Err(ToolServerError::Failed(Failure { message, ..Failure::clone(failure) }));
            }
            state.failed_attempts
        };
        self.send(Command::Connect(Arc::clone(spec)))?;
        loop {
            states.changed().await.map_err(|_| ToolServerError::GoingDown)?;
            let state = states.borrow_and_update();
            if let Some(session) = fits(&state) {
                return Ok(session);
            }
            if state.failed_attempts != failed_attempts {
                let failure = state.failure.as_deref().cloned();
                return Err(ToolServerError::Failed(failure.unwrap_or_else(disconnected)));
            }
        }
    }

    /// Closes the session and waits until it is closed.
    pub(super) async fn disconnect(&self) -> Result<(), ToolServerError> {
        let mut states = self.shared.state.subscribe();
        // Also resets a lost or failed session.
        self.send(Command::Disconnect)?;
        let is_over = |state: &LinkState| state.status == ServerStatus::Disconnected;
        states.wait_for(is_over).await.map(|_| ()).map_err(|_| ToolServerError::GoingDown)
    }
}

fn disconnected() -> Failure {
    Failure {
        code: "tool_server_not_connected",
        message: "the tool server was disconnected before the connection was established".to_owned(),
        is_local: false,
        diagnosis: String::new(),
    }
}
