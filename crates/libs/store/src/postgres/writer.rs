//! Transactions, many at once on one thread.
//!
//! Each is SERIALIZABLE, so that a closure may rely on what it read exactly as it may on SQLite's
//! single writer: "count the users, then insert the first one" lets exactly one of two racers win.
//! The price is that PostgreSQL refuses some of those that overlap; they are run again, after a
//! jittered pause, up to a bound. Claims from the queue lock the rows that they take and run at
//! READ COMMITTED, where they never collide.
//!
//! A connection that fails before the commit was sent has changed nothing, so the closure is run
//! once more. If it fails during the commit, or the answer to that stays away, nobody knows what came
//! of it: the caller is told that the database is unavailable, and the closure is not run again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::server::PING_AFTER;
use super::{Pooled, Presence, Server, notify};
use crate::job::{Durability, Isolation, Job, Message, Outcome, Plan, mark_transaction_thread};
use crate::read::{Connection, Read};
use crate::shared::Shared;
use crate::{StoreError, Topic, Tx};

/// Transactions at once.
const SLOTS: usize = 10;
/// One more for notifying and one for listening.
const CONNECTIONS: u32 = 12;
const ATTEMPTS: u32 = 25;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// A topic's rows: its version is their sum, and transactions that write different ones do not
/// collide.
const SHARDS: usize = 64;

struct Slots {
    free: RefCell<Vec<usize>>,
    offset: usize,
}

/// What every running transaction needs.
struct Context {
    pool: PgPool,
    server: Arc<Server>,
    shared: Arc<Shared>,
    slots: Slots,
    outgoing: Rc<notify::Outgoing>,
}

pub(super) fn start(
    server: Arc<Server>,
    shared: Arc<Shared>,
    presence: Arc<Presence>,
    inbox: mpsc::Receiver<Message>,
) -> Result<(), StoreError> {
    let failed = |e| StoreError::io("starting the writer for", "PostgreSQL", e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            mark_transaction_thread();
            let done = tokio::task::LocalSet::new().block_on(&runtime, run(server, shared, presence, inbox));
            if let Some(done) = done {
                let _ = done.send(());
            }
        })
        .map_err(failed)?;
    Ok(())
}

async fn run(
    server: Arc<Server>,
    shared: Arc<Shared>,
    presence: Arc<Presence>,
    mut inbox: mpsc::Receiver<Message>,
) -> Option<oneshot::Sender<()>> {
    let limits = server.limits;
    let pool = server
        .pool_options(CONNECTIONS)
        .before_acquire(move |connection, meta| {
            Box::pin(async move {
                if meta.idle_for >= PING_AFTER {
                    Server::ping(connection, limits).await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(server.options.clone());
    let offset = usize::from(shared.entropy.bytes::<1>()[0]);
    let outgoing = Rc::new(notify::Outgoing::new(&shared));
    let context = Rc::new(Context {
        pool: pool.clone(),
        server: Arc::clone(&server),
        shared: Arc::clone(&shared),
        slots: Slots { free: RefCell::new((0..SLOTS).collect()), offset },
        outgoing: Rc::clone(&outgoing),
    });
    let sender = tokio::task::spawn_local(notify::send(pool.clone(), Arc::clone(&server), Rc::clone(&outgoing)));
    let own = outgoing.replica().to_owned();
    let listener = tokio::task::spawn_local(notify::listen(pool.clone(), server, shared, presence, own));

    let mut running = JoinSet::new();
    let mut closing = None;
    loop {
        if running.len() >= SLOTS {
            running.join_next().await;
            continue;
        }
        tokio::select! {
            message = inbox.recv() => match message {
                Some(Message::Job(job)) => {
                    running.spawn_local(carry_out(Rc::clone(&context), job));
                }
                Some(Message::Close(done)) => {
                    inbox.close();
                    closing = Some(done);
                }
                None => break,
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    while running.join_next().await.is_some() {}
    listener.abort();
    sender.abort();
    // The listener says goodbye on its connection, which may hang.
    drop(tokio::time::timeout(limits.answer(), pool.close()).await);
    closing
}

/// Gives the slot back however the transaction ends.
struct Slot<'c> {
    slots: &'c Slots,
    number: usize,
}

impl Slot<'_> {
    fn shard(&self) -> usize {
        (self.slots.offset + self.number) % SHARDS
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.free.borrow_mut().push(self.number);
    }
}

enum Attempt {
    Done,
    /// On a connection that had died, or hangs, while it was idle: the closure did not run.
    NotBegun(StoreError),
    Again(StoreError),
    Failed(StoreError),
}

async fn carry_out(context: Rc<Context>, mut job: Box<dyn Job>) {
    let number = context.slots.free.borrow_mut().pop().unwrap_or_default();
    let slot = Slot { slots: &context.slots, number };
    let mut lost_connections = 0;
    for attempt in 1..=ATTEMPTS {
        match context.attempt(&mut *job, slot.shard()).await {
            Attempt::Done => return job.answer(Ok(())),
            Attempt::Failed(error) => return job.answer(Err(error)),
            // The pool throws it away; at worst all of them have died.
            Attempt::NotBegun(_) if attempt <= CONNECTIONS => {}
            Attempt::NotBegun(error) => return job.answer(Err(error)),
            Attempt::Again(error) => {
                if error.is_lost_connection() {
                    lost_connections += 1;
                }
                if attempt == ATTEMPTS || lost_connections > 1 {
                    return job.answer(Err(error));
                }
                tokio::time::sleep(context.pause(attempt)).await;
            }
        }
    }
}

impl Context {
    fn pause(&self, attempt: u32) -> Duration {
        let longest = FIRST_PAUSE.saturating_mul(1 << attempt.min(10)).min(LONGEST_PAUSE);
        longest.mul_f64(self.shared.entropy.unit())
    }

    async fn attempt(&self, job: &mut dyn Job, shard: usize) -> Attempt {
        let connection = match Pooled::acquire(&self.pool, &self.server).await {
            Ok(connection) => connection,
            // A server that is away is not worth another try: the pool has already tried for seconds.
            Err(error @ sqlx::Error::PoolTimedOut) => return Attempt::Failed(error.into()),
            Err(error) => return not_begun(error.into()),
        };
        let begun = match connection.begin(begin(job.plan())).await {
            Ok(transaction) => transaction,
            Err(error) => return not_begun(error),
        };
        let mut tx = Tx::new(Read::new(Connection::PostgresTransaction(begun), Arc::clone(&self.shared), true));
        let outcome = job.run(&mut tx).await;
        let prepared = match outcome {
            Outcome::Keep => tx.bump_versions(shard).await,
            Outcome::GiveUp => Err(StoreError::Aborted),
        };
        let Tx { read, touched, woken, .. } = tx;
        let Connection::PostgresTransaction(transaction) = read.connection else {
            return Attempt::Failed(StoreError::Closed);
        };
        if let Err(error) = prepared {
            transaction.rollback().await;
            let cause = read.failure.unwrap_or(error);
            return match (outcome, cause) {
                (_, cause @ StoreError::Contended) => Attempt::Again(cause),
                (_, cause) if cause.is_lost_connection() => Attempt::Again(cause),
                (Outcome::GiveUp, _) => Attempt::Done,
                (Outcome::Keep, cause) => Attempt::Failed(cause),
            };
        }
        match transaction.commit().await {
            Ok(()) => {
                self.tell(&touched, woken);
                Attempt::Done
            }
            Err(StoreError::Contended) => Attempt::Again(StoreError::Contended),
            Err(error) => {
                // It may be there all the same.
                self.tell(&touched, woken);
                Attempt::Failed(error)
            }
        }
    }

    /// Here at once, to the other replicas soon.
    fn tell(&self, touched: &[Topic], woken: Vec<String>) {
        let names = touched.iter().map(|topic| topic.name().to_owned()).chain(woken);
        for name in names {
            self.shared.signals.bump(&name);
            self.outgoing.add(name);
        }
    }
}

fn not_begun(error: StoreError) -> Attempt {
    if error.is_unavailable() { Attempt::NotBegun(error) } else { Attempt::Failed(error) }
}

fn begin(plan: Plan) -> &'static str {
    match (plan.isolation, plan.durability) {
        (Isolation::Serializable, Durability::Full) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        (Isolation::Serializable, Durability::Relaxed) => {
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL synchronous_commit = off"
        }
        (Isolation::ReadCommitted, Durability::Full) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        (Isolation::ReadCommitted, Durability::Relaxed) => {
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off"
        }
    }
}
