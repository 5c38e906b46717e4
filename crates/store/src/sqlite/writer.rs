//! The one writer. Closures that wait at the same time share a transaction and its one sync to disk,
//! each behind its own savepoint, and are answered after the commit.
//!
//! A batch ends as soon as nobody waits, after 5 ms, or after 100 closures. It commits with
//! `synchronous=FULL` if any of its closures asked for that; one that asks for it never joins a
//! batch that began without, because SQLite cannot change its mind inside a transaction.
//!
//! Checkpoints do not run on the commit path: a reader's connection copies the log back while
//! commits go on. Only when the log has grown far beyond that does the writer itself help.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqlitePool};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::Message;
use crate::db::mark_transaction_thread;
use crate::job::{Durability, Job, Outcome};
use crate::lock::DataDirLock;
use crate::read::Connection;
use crate::shared::Shared;
use crate::{StoreError, Topic, Tx};

const BATCH_JOBS: usize = 100;
const BATCH_TIME: Duration = Duration::from_millis(5);
/// A closure that holds everybody up for longer is reported.
const SLOW_JOB: Duration = Duration::from_millis(50);
/// From here on the log is copied back beside the commits.
const CHECKPOINT_BYTES: u64 = 4 << 20;
/// From here on the writer waits for it.
const CHECKPOINT_NOW_BYTES: u64 = 48 << 20;
const COMMITS_BETWEEN_LOOKS: u32 = 32;

const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT job";
const NEXT: &str = "RELEASE job; SAVEPOINT job";
const UNDO: &str = "ROLLBACK TO job";

struct Writer {
    tx: Option<Tx>,
    options: SqliteConnectOptions,
    log_path: PathBuf,
    readers: SqlitePool,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    waiting: VecDeque<Box<dyn Job>>,
    closing: Option<oneshot::Sender<()>>,
    is_full: bool,
    commits: u32,
    checkpoint: Option<tokio::task::JoinHandle<()>>,
}

/// Starts the writer's thread. It ends, and gives the lock back, when told to close or when every
/// handle of the database is gone, after all that was queued is done.
pub(super) fn start(
    connection: sqlx::SqliteConnection,
    options: SqliteConnectOptions,
    path: PathBuf,
    readers: SqlitePool,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    lock: DataDirLock,
) -> Result<(), StoreError> {
    // Without an IO driver the thread sleeps on a futex, which wakes faster than epoll.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| StoreError::io("starting the writer for", &path, e))?;
    let mut log_path = path.clone().into_os_string();
    log_path.push("-wal");
    let writer = move || {
        let _lock = lock;
        mark_transaction_thread();
        let writer = Writer {
            tx: Some(super::writer_tx(connection, &shared)),
            options,
            log_path: log_path.into(),
            readers,
            shared,
            inbox,
            waiting: VecDeque::new(),
            closing: None,
            is_full: false,
            commits: 0,
            checkpoint: None,
        };
        tokio::task::LocalSet::new().block_on(&runtime, writer.run())
    };
    std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            if let Some(done) = writer() {
                // The lock is back already: whoever waits for the close may open again.
                let _ = done.send(());
            }
        })
        .map_err(|e| StoreError::io("starting the writer for", &path, e))?;
    Ok(())
}

impl Writer {
    async fn run(mut self) -> Option<oneshot::Sender<()>> {
        loop {
            if self.waiting.is_empty() {
                if self.closing.is_some() && self.inbox.is_empty() {
                    break;
                }
                match self.inbox.recv().await {
                    Some(message) => self.accept(message),
                    None => break,
                }
            }
            self.accept_all_there();
            if !self.waiting.is_empty() {
                self.batch().await;
                self.look_at_log().await;
            }
        }
        if let Some(checkpoint) = self.checkpoint.take() {
            drop(checkpoint.await);
        }
        self.readers.close().await;
        if let Some(tx) = self.tx.take() {
            // The last connection that closes copies the log back and removes it.
            super::close_connection(tx).await;
        }
        self.closing
    }

    fn accept(&mut self, message: Message) {
        match message {
            Message::Job(job) => self.waiting.push_back(job),
            Message::Close(done) => {
                self.inbox.close();
                self.closing = Some(done);
            }
        }
    }

    fn accept_all_there(&mut self) {
        while self.waiting.len() < BATCH_JOBS {
            match self.inbox.try_recv() {
                Ok(message) => self.accept(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
    }

    /// Runs and commits one batch, and answers everyone in it.
    async fn batch(&mut self) {
        let mut done = Vec::with_capacity(self.waiting.len());
        let mut touched = Vec::new();
        let mut woken = Vec::new();
        let result = self.run_batch(&mut done, &mut touched, &mut woken).await;
        if let Err(error) = &result {
            tracing::warn!(error = error as &dyn std::error::Error, jobs = done.len(), "a batch of writes failed");
            self.give_up_batch(error).await;
        } else {
            for topic in touched {
                self.shared.signals.bump(Topic::name(topic));
            }
            for name in woken {
                self.shared.signals.bump(&name);
            }
        }
        for job in done {
            job.answer(result.clone());
        }
    }

    async fn run_batch(
        &mut self,
        done: &mut Vec<Box<dyn Job>>,
        touched: &mut Vec<Topic>,
        woken: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let is_full = self.waiting.iter().any(|job| job.plan().durability == Durability::Full);
        if let Err(error) = self.begin(is_full).await {
            done.extend(self.waiting.drain(..));
            return Err(error);
        }
        let started = Instant::now();
        let mut is_fresh = true;
        loop {
            let Some(mut job) = self.next_job(is_full, done.len(), started) else { break };
            let tx = self.tx.as_mut().ok_or(StoreError::Closed);
            let tx = match tx {
                Ok(tx) => tx,
                Err(error) => {
                    done.push(job);
                    return Err(error);
                }
            };
            if !is_fresh && let Err(error) = control(tx, NEXT).await {
                done.push(job);
                return Err(error);
            }
            tx.reset();
            let job_started = Instant::now();
            let outcome = job.run(tx).await;
            let took = job_started.elapsed();
            if took > SLOW_JOB {
                tracing::warn!(took_ms = took.as_millis(), "a transaction held up all other writers");
            }
            done.push(job);
            match outcome {
                Outcome::Keep => {
                    is_fresh = false;
                    touched.append(&mut tx.touched);
                    woken.append(&mut tx.woken);
                }
                Outcome::GiveUp => {
                    // If SQLite gave up the whole transaction by itself (disk full), there is no
                    // savepoint any more, and the batch is lost.
                    let failure = tx.read.failure.take();
                    if let Err(error) = control(tx, UNDO).await {
                        return Err(failure.filter(StoreError::is_unavailable).unwrap_or(error));
                    }
                    is_fresh = true;
                }
            }
        }
        let tx = self.tx.as_mut().ok_or(StoreError::Closed)?;
        control(tx, "COMMIT").await
    }

    /// The next closure of the running batch, unless the batch is to end.
    fn next_job(&mut self, is_full: bool, count: usize, started: Instant) -> Option<Box<dyn Job>> {
        if count >= BATCH_JOBS || (count > 0 && started.elapsed() >= BATCH_TIME) {
            return None;
        }
        if self.waiting.is_empty() {
            self.accept_all_there();
        }
        if !is_full && self.waiting.front().is_some_and(|job| job.plan().durability == Durability::Full) {
            return None;
        }
        self.waiting.pop_front()
    }

    async fn begin(&mut self, is_full: bool) -> Result<(), StoreError> {
        if self.tx.is_none() {
            let connection = self.options.connect().await?;
            self.tx = Some(super::writer_tx(connection, &self.shared));
            self.is_full = false;
        }
        let tx = self.tx.as_mut().ok_or(StoreError::Closed)?;
        if self.is_full != is_full {
            control(tx, if is_full { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" }).await?;
            self.is_full = is_full;
        }
        control(tx, BEGIN).await
    }

    /// After a failed batch nothing of it may stay, and a broken connection is opened anew.
    async fn give_up_batch(&mut self, error: &StoreError) {
        let Some(tx) = self.tx.as_mut() else { return };
        // Fails when SQLite has rolled back by itself, which is as good.
        drop(control(tx, "ROLLBACK").await);
        if error.is_unavailable()
            && let Some(tx) = self.tx.take()
        {
            super::close_connection(tx).await;
        }
    }

    async fn look_at_log(&mut self) {
        self.commits += 1;
        if self.commits < COMMITS_BETWEEN_LOOKS {
            return;
        }
        self.commits = 0;
        let bytes = log_bytes(&self.log_path);
        if bytes < CHECKPOINT_BYTES {
            return;
        }
        if bytes >= CHECKPOINT_NOW_BYTES
            && let Some(tx) = self.tx.as_mut()
            && let Err(error) = control(tx, "PRAGMA wal_checkpoint(PASSIVE)").await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "copying the log back failed");
            return;
        }
        if self.checkpoint.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            self.checkpoint = Some(tokio::task::spawn_local(checkpoint(self.readers.clone())));
        }
    }
}

async fn checkpoint(readers: SqlitePool) {
    let copied = async {
        let mut connection = readers.acquire().await?;
        sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *connection).await
    };
    match copied.await {
        Ok(_) | Err(sqlx::Error::PoolClosed) => {}
        Err(error) => tracing::warn!(%error, "copying the log back failed"),
    }
}

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// A statement of the batch itself. Prepared once and kept, unlike a script.
async fn control(tx: &mut Tx, sql: &'static str) -> Result<(), StoreError> {
    let Connection::SqliteWriter(connection) = &mut tx.read.connection else { return Err(StoreError::Closed) };
    sqlx::query(sql).execute(connection).await?;
    Ok(())
}
