//! Supervisor task of one server: connects on demand, lists the tools, detects crashes and hangs, and reconnects with
//! backoff.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Clock, Entropy};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::{Opener, Session};
use super::error::Failure;
use super::link::{Command, LinkState, ServerStatus, Shared};
use super::listings::Listings;
use super::load::Spec;

const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(300), jitter: 0.2 };
/// Maximum number of consecutive automatic restarts of a crashed server; after that it is started on demand.
const MAX_RESTARTS: u32 = 5;
/// A session of at least this duration resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Minimum interval between tool lists, for servers that announce changes continuously.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(5);
/// A server that does not answer a ping within this time is considered hung.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) struct Supervisor {
    pub(super) opener: Arc<Opener>,
    pub(super) listings: Listings,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Number of consecutive failed attempts.
    pub(super) failures: u32,
}

/// Outcome of a connection attempt.
enum ConnectOutcome {
    Session(Arc<Session>),
    Failed(Failure),
    /// The registration changed.
    Again(Arc<Spec>),
    Stopped,
    Closed,
}

/// Reason why a session ended.
enum SessionEnd {
    Lost(Failure),
    Replaced(Arc<Spec>),
    Stopped,
    Closed,
}

/// Reason why a backoff delay ended.
enum DelayEnd {
    Over,
    Wanted(Arc<Spec>),
    Stopped,
    Closed,
}

impl Supervisor {
    /// Runs until it is closed or its link is dropped.
    pub(super) async fn run(mut self) {
        loop {
            match self.commands.recv().await {
                None | Some(Command::Close) => return,
                Some(Command::Connect(spec)) => {
                    if !self.keep_connected(spec).await {
                        return;
                    }
                }
                Some(Command::Disconnect) => self.set_disconnected(),
                Some(Command::DisconnectIfIdle | Command::Ping) => {}
            }
        }
    }

    /// Keeps the server connected until it is disconnected. Returns whether the supervisor continues.
    async fn keep_connected(&mut self, mut spec: Arc<Spec>) -> bool {
        let (mut restarts, mut was_connected) = (0, false);
        loop {
            match self.attempt_connection(&spec).await {
                ConnectOutcome::Session(session) => {
                    was_connected = true;
                    let begun = Instant::now();
                    let ended = self.serve(&session).await;
                    self.set(|state| {
                        state.status = ServerStatus::Disconnecting;
                        state.session = None;
                        state.connected_at = None;
                    });
                    session.end().await;
                    match ended {
                        SessionEnd::Lost(failure) => {
                            if begun.elapsed() >= STABLE_AFTER {
                                (self.failures, restarts) = (0, 0);
                            }
                            self.set(|state| state.losses += 1);
                            self.set_failed(failure);
                        }
                        SessionEnd::Replaced(newer) => {
                            spec = newer;
                            continue;
                        }
                        SessionEnd::Stopped => {
                            self.set_disconnected();
                            return true;
                        }
                        SessionEnd::Closed => {
                            self.set_disconnected();
                            return false;
                        }
                    }
                }
                ConnectOutcome::Failed(failure) => self.set_failed(failure),
                ConnectOutcome::Again(newer) => {
                    spec = newer;
                    continue;
                }
                ConnectOutcome::Stopped => {
                    self.set_disconnected();
                    return true;
                }
                ConnectOutcome::Closed => return false,
            }
            if !was_connected || restarts == MAX_RESTARTS {
                return true;
            }
            restarts += 1;
            match self.wait_for_backoff().await {
                DelayEnd::Over => {}
                DelayEnd::Wanted(newer) => spec = newer,
                DelayEnd::Stopped => {
                    self.set_disconnected();
                    return true;
                }
                DelayEnd::Closed => return false,
            }
        }
    }

    async fn attempt_connection(&mut self, spec: &Arc<Spec>) -> ConnectOutcome {
        self.set(|state| state.status = ServerStatus::Connecting);
        let attempt = connect(Arc::clone(&self.opener), self.listings.clone(), Arc::clone(spec));
        tokio::pin!(attempt);
        loop {
            tokio::select! {
                result = &mut attempt => match result {
                    Ok(session) => {
                        let session = Arc::new(session);
                        let now = self.clock.now();
                        self.shared.record_use();
                        self.set(|state| {
                            state.status = ServerStatus::Connected;
                            state.session = Some(Arc::clone(&session));
                            state.failure = None;
                            state.retry_at = None;
                            state.connected_at = Some(now);
                        });
                        return ConnectOutcome::Session(session);
                    }
                    Err(failure) => return ConnectOutcome::Failed(failure),
                },
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return ConnectOutcome::Closed,
                    Some(Command::Connect(newer)) if newer.revision != spec.revision => return ConnectOutcome::Again(newer),
                    Some(Command::Disconnect) => return ConnectOutcome::Stopped,
                    Some(Command::Connect(_) | Command::DisconnectIfIdle | Command::Ping) => {}
                },
            }
        }
    }

    async fn serve(&mut self, session: &Arc<Session>) -> SessionEnd {
        let mut changes = session.connection.tools_changes();
        let mut next_list = Instant::now();
        let mut listing: BackgroundTask<()> = BackgroundTask::none();
        let mut check: BackgroundTask<bool> = BackgroundTask::none();
        loop {
            tokio::select! {
                reason = session.connection.closed() => return SessionEnd::Lost(session.loss(reason).await),
                Some(()) = async {
                    tokio::time::sleep_until(next_list).await;
                    changes.changed().await
                }, if listing.is_none() => {
                    next_list = Instant::now() + MIN_LIST_INTERVAL;
                    listing = BackgroundTask::start(refresh_listing(self.listings.clone(), Arc::clone(session)));
                }
                () = listing.ended(|_| ()) => listing = BackgroundTask::none(),
                is_alive = check.ended(|is_alive| is_alive.unwrap_or(true)) => {
                    check = BackgroundTask::none();
                    if !is_alive {
                        let message = "the tool server did not respond to a ping and was stopped".to_owned();
                        let failure = Failure { code: "tool_server_hangs", message, is_local: false, diagnosis: session.diagnosis() };
                        return SessionEnd::Lost(failure);
                    }
                }
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return SessionEnd::Closed,
                    Some(Command::Disconnect) => return SessionEnd::Stopped,
                    Some(Command::DisconnectIfIdle) if !self.shared.has_calls() => return SessionEnd::Stopped,
                    Some(Command::Connect(newer)) if newer.revision != session.revision => return SessionEnd::Replaced(newer),
                    Some(Command::Ping) if check.is_none() => {
                        let session = Arc::clone(session);
                        check = BackgroundTask::start(async move { session.connection.ping(PING_TIMEOUT).await.is_ok() });
                    }
                    Some(Command::Connect(_) | Command::DisconnectIfIdle | Command::Ping) => {}
                },
            }
        }
    }

    async fn wait_for_backoff(&mut self) -> DelayEnd {
        let until = self.shared.state.borrow().retry_at.map_or_else(Instant::now, |(at, _)| at);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return DelayEnd::Over,
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return DelayEnd::Closed,
                    Some(Command::Connect(spec)) => return DelayEnd::Wanted(spec),
                    Some(Command::Disconnect | Command::DisconnectIfIdle) => return DelayEnd::Stopped,
                    Some(Command::Ping) => {}
                },
            }
        }
    }

    fn set(&self, change: impl FnOnce(&mut LinkState)) {
        self.shared.state.send_modify(change);
    }

    fn set_disconnected(&self) {
        self.set(|state| {
            state.status = ServerStatus::Disconnected;
            state.failed_attempts += 1;
            state.failure = None;
            state.retry_at = None;
        });
    }

    fn set_failed(&mut self, failure: Failure) {
        self.failures = self.failures.saturating_add(1);
        let delay = BACKOFF.delay(self.failures, self.entropy.unit());
        let retry_at = (Instant::now() + delay, self.clock.now() + delay);
        let (server, failures) = (&self.listings.id, self.failures);
        tracing::info!(%server, code = failure.code, failures, "tool server unavailable");
        self.set(|state| {
            state.status = ServerStatus::Failed;
            state.failed_attempts += 1;
            state.failure = Some(Arc::new(failure));
            state.retry_at = Some(retry_at);
        });
    }
}

/// Opens a session and lists the tools. A server that cannot list its tools counts as failed.
async fn connect(opener: Arc<Opener>, listings: Listings, spec: Arc<Spec>) -> Result<Session, Failure> {
    let session = opener.open(&spec).await?;
    match session.list().await {
        Ok(listing) => {
            listings.store_for_spec(&spec, &listing).await;
            Ok(session)
        }
        Err(failure) => {
            session.end().await;
            Err(failure)
        }
    }
}

async fn refresh_listing(listings: Listings, session: Arc<Session>) {
    match session.list().await {
        Ok(listing) => listings.store_for_session(&session, &listing).await,
        Err(failure) => tracing::info!(code = failure.code, "failed to list changed tools of a tool server"),
    }
}

/// Background task of the supervisor; aborted on drop.
struct BackgroundTask<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> BackgroundTask<T> {
    fn none() -> Self {
        Self(None)
    }

    fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for the end of the task; pending if there is none. Cancel safe.
    async fn ended<R>(&mut self, read: impl FnOnce(Option<T>) -> R) -> R {
        match &mut self.0 {
            Some(work) => read(work.await.ok()),
            None => std::future::pending().await,
        }
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        if let Some(work) = &self.0 {
            work.abort();
        }
    }
}
