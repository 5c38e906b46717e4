//! The task that supervises one server: connects when that is wanted, asks for the tools, notices
//! that the server died or hangs, and tries again after pauses that grow.

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
/// A server that died is started again by itself so often in a row; then when it is needed.
const RESTARTS: u32 = 5;
/// Who lived for as long begins with the shortest pause again.
const STEADY: Duration = Duration::from_secs(60);
/// A server that announces changes all the time is asked no more often.
const LIST_PAUSE: Duration = Duration::from_secs(5);
/// A sign of life comes within this, or the server hangs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

pub(super) struct Supervisor {
    pub(super) opener: Arc<Opener>,
    pub(super) listings: Listings,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Tries that failed in a row.
    pub(super) failures: u32,
}

/// How a try ended.
enum Tried {
    Session(Arc<Session>),
    Failed(Failure),
    /// As registered by now.
    Again(Arc<Spec>),
    Stopped,
    Closed,
}

/// How a session ended.
enum Ended {
    Lost(Failure),
    Replaced(Arc<Spec>),
    Stopped,
    Closed,
}

/// How a pause ended.
enum Paused {
    Over,
    Wanted(Arc<Spec>),
    Stopped,
    Closed,
}

impl Supervisor {
    /// Runs until it is closed, or nobody holds its link any more.
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
                Some(Command::Rest | Command::Check) => {}
            }
        }
    }

    /// Until nobody wants it any more. Answers whether to go on supervising.
    async fn keep_connected(&mut self, mut spec: Arc<Spec>) -> bool {
        let (mut restarts, mut was_connected) = (0, false);
        loop {
            match self.try_to_connect(&spec).await {
                Tried::Session(session) => {
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
                        Ended::Lost(failure) => {
                            if begun.elapsed() >= STEADY {
                                (self.failures, restarts) = (0, 0);
                            }
                            self.set(|state| state.losses += 1);
                            self.set_failed(failure);
                        }
                        Ended::Replaced(newer) => {
                            spec = newer;
                            continue;
                        }
                        Ended::Stopped => {
                            self.set_disconnected();
                            return true;
                        }
                        Ended::Closed => {
                            self.set_disconnected();
                            return false;
                        }
                    }
                }
                Tried::Failed(failure) => self.set_failed(failure),
                Tried::Again(newer) => {
                    spec = newer;
                    continue;
                }
                Tried::Stopped => {
                    self.set_disconnected();
                    return true;
                }
                Tried::Closed => return false,
            }
            if !was_connected || restarts == RESTARTS {
                return true;
            }
            restarts += 1;
            match self.pause().await {
                Paused::Over => {}
                Paused::Wanted(newer) => spec = newer,
                Paused::Stopped => {
                    self.set_disconnected();
                    return true;
                }
                Paused::Closed => return false,
            }
        }
    }

    async fn try_to_connect(&mut self, spec: &Arc<Spec>) -> Tried {
        self.set(|state| state.status = ServerStatus::Connecting);
        let trying = connect(Arc::clone(&self.opener), self.listings.clone(), Arc::clone(spec));
        tokio::pin!(trying);
        loop {
            tokio::select! {
                tried = &mut trying => match tried {
                    Ok(session) => {
                        let session = Arc::new(session);
                        let now = self.clock.now();
                        self.shared.note_use();
                        self.set(|state| {
                            state.status = ServerStatus::Connected;
                            state.session = Some(Arc::clone(&session));
                            state.failure = None;
                            state.retry_at = None;
                            state.connected_at = Some(now);
                        });
                        return Tried::Session(session);
                    }
                    Err(failure) => return Tried::Failed(failure),
                },
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return Tried::Closed,
                    Some(Command::Connect(newer)) if newer.revision != spec.revision => return Tried::Again(newer),
                    Some(Command::Disconnect) => return Tried::Stopped,
                    Some(Command::Connect(_) | Command::Rest | Command::Check) => {}
                },
            }
        }
    }

    async fn serve(&mut self, session: &Arc<Session>) -> Ended {
        let mut changes = session.connection.tools_changes();
        let mut next_list = Instant::now();
        let mut listing: Aside<()> = Aside::none();
        let mut check: Aside<bool> = Aside::none();
        loop {
            tokio::select! {
                reason = session.connection.closed() => return Ended::Lost(session.loss(reason).await),
                Some(()) = async {
                    tokio::time::sleep_until(next_list).await;
                    changes.changed().await
                }, if listing.is_none() => {
                    next_list = Instant::now() + LIST_PAUSE;
                    listing = Aside::start(list_again(self.listings.clone(), Arc::clone(session)));
                }
                () = listing.ended(|_| ()) => listing = Aside::none(),
                is_alive = check.ended(|is_alive| is_alive.unwrap_or(true)) => {
                    check = Aside::none();
                    if !is_alive {
                        let message = "the tool server gives no sign of life, so it was ended".to_owned();
                        let failure = Failure { code: "tool_server_hangs", message, is_ours: false, diagnosis: session.diagnosis() };
                        return Ended::Lost(failure);
                    }
                }
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return Ended::Closed,
                    Some(Command::Disconnect) => return Ended::Stopped,
                    Some(Command::Rest) if !self.shared.has_calls() => return Ended::Stopped,
                    Some(Command::Connect(newer)) if newer.revision != session.revision => return Ended::Replaced(newer),
                    Some(Command::Check) if check.is_none() => {
                        let session = Arc::clone(session);
                        check = Aside::start(async move { session.connection.ping(SIGN_OF_LIFE).await.is_ok() });
                    }
                    Some(Command::Connect(_) | Command::Rest | Command::Check) => {}
                },
            }
        }
    }

    async fn pause(&mut self) -> Paused {
        let until = self.shared.state.borrow().retry_at.map_or_else(Instant::now, |(at, _)| at);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Paused::Over,
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return Paused::Closed,
                    Some(Command::Connect(spec)) => return Paused::Wanted(spec),
                    Some(Command::Disconnect | Command::Rest) => return Paused::Stopped,
                    Some(Command::Check) => {}
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
            state.tries_over += 1;
            state.failure = None;
            state.retry_at = None;
        });
    }

    fn set_failed(&mut self, failure: Failure) {
        self.failures = self.failures.saturating_add(1);
        let pause = BACKOFF.delay(self.failures, self.entropy.unit());
        let retry_at = (Instant::now() + pause, self.clock.now() + pause);
        let (server, failures) = (&self.listings.id, self.failures);
        tracing::info!(%server, code = failure.code, failures, "a tool server cannot be used now");
        self.set(|state| {
            state.status = ServerStatus::Failed;
            state.tries_over += 1;
            state.failure = Some(Arc::new(failure));
            state.retry_at = Some(retry_at);
        });
    }
}

/// Opens a session and asks for the tools: a server that does not say what it offers is of no use.
async fn connect(opener: Arc<Opener>, listings: Listings, spec: Arc<Spec>) -> Result<Session, Failure> {
    let session = opener.open(&spec).await?;
    match session.list().await {
        Ok(listing) => {
            listings.keep(&spec, &listing).await;
            Ok(session)
        }
        Err(failure) => {
            session.end().await;
            Err(failure)
        }
    }
}

async fn list_again(listings: Listings, session: Arc<Session>) {
    match session.list().await {
        Ok(listing) => listings.keep_of(&session, &listing).await,
        Err(failure) => tracing::info!(code = failure.code, "a tool server did not say how its tools changed"),
    }
}

/// Something under way beside the supervision; ended when dropped.
struct Aside<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Aside<T> {
    fn none() -> Self {
        Self(None)
    }

    fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for its end; for ever when there is nothing. Cancel-safe.
    async fn ended<R>(&mut self, read: impl FnOnce(Option<T>) -> R) -> R {
        match &mut self.0 {
            Some(work) => read(work.await.ok()),
            None => std::future::pending().await,
        }
    }
}

impl<T> Drop for Aside<T> {
    fn drop(&mut self) {
        if let Some(work) = &self.0 {
            work.abort();
        }
    }
}
