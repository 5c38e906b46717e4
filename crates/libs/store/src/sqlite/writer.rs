//! The single writer. Closures that wait at the same time share a transaction and its one sync to disk, each behind its
//! own savepoint, and are answered after the commit.
//!
//! A batch ends when no closure is waiting, after 5 ms, or after 100 closures. It commits with `synchronous=FULL` if
//! any of its closures asked for that; such a closure never joins a batch that began without it, because SQLite cannot
//! change the mode inside a transaction.
//!
//! Checkpoints do not run on the commit path: another connection copies the log back concurrently with commits. Only
//! when the log has grown far beyond its limit does the writer itself checkpoint and wait briefly for readers, so that
//! the log restarts even with permanent readers.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::readers::Readers;
use super::{direct, log};
use crate::job::{Durability, Job, Message, Outcome, mark_transaction_thread};
use crate::lock::DataDirLock;
use crate::migrate;
use crate::read::{Connection, Read};
use crate::shared::Shared;
use crate::{StoreError, Topic, Tx};

const MAX_BATCH_JOBS: usize = 100;
const MAX_BATCH_DURATION: Duration = Duration::from_millis(5);
/// Duration after which a closure, which blocks all writers, is reported.
const SLOW_JOB_THRESHOLD: Duration = Duration::from_millis(50);
/// Log size that starts a concurrent checkpoint.
const CHECKPOINT_PAGES: u32 = 2_000;
/// Log size that starts a blocking checkpoint.
const BLOCKING_CHECKPOINT_PAGES: u32 = 12_000;

struct Writer {
    tx: Option<Tx>,
    path: PathBuf,
    readers: Readers,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    waiting: VecDeque<Box<dyn Job>>,
    closing: Option<oneshot::Sender<()>>,
    is_full: bool,
    /// Total number of changed rows at the last commit.
    changes: u64,
    checkpoint: Option<JoinHandle<bool>>,
    /// Log size, in pages, of the next checkpoint.
    next_checkpoint: u32,
}

/// Starts the writer on its own thread, which opens and migrates the file first. It stops, and releases the lock, when
/// closed or when every handle of the database is gone, after all queued closures are done.
pub(super) async fn start(
    path: PathBuf,
    readers: Readers,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    lock: DataDirLock,
) -> Result<(), StoreError> {
    let failed = |path: &Path, e| StoreError::io("starting the writer for", path, e);
    let (opened, wait_for_open) = oneshot::channel();
    if shared.is_simulated {
        tokio::task::spawn_local(run_writer(path, readers, shared, inbox, lock, opened));
    } else {
        // Without an IO driver the thread sleeps on a futex, which wakes faster than epoll.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let (runtime, named) = (runtime.map_err(|e| failed(&path, e))?, path.clone());
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread_main = move || {
            mark_transaction_thread();
            runtime.block_on(run_writer(path, readers, shared, inbox, lock, opened));
        };
        thread.spawn(thread_main).map_err(|e| failed(&named, e))?;
    }
    wait_for_open.await.unwrap_or(Err(StoreError::Closed))
}

/// Runs the writer until it is closed.
async fn run_writer(
    path: PathBuf,
    readers: Readers,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    lock: DataDirLock,
    opened: oneshot::Sender<Result<(), StoreError>>,
) {
    let tx = match open(&path, &shared).await {
        Ok(tx) => tx,
        Err(error) => {
            drop(lock);
            let _ = opened.send(Err(error));
            return;
        }
    };
    // If the caller is gone, the inbox is closed too, and the writer stops immediately.
    let _ = opened.send(Ok(()));
    let writer = Writer {
        tx: Some(tx),
        path,
        readers,
        shared,
        inbox,
        waiting: VecDeque::new(),
        closing: None,
        is_full: false,
        changes: 0,
        checkpoint: None,
        next_checkpoint: CHECKPOINT_PAGES,
    };
    let closing = writer.run().await;
    drop(lock);
    if let Some(done) = closing {
        // The lock is already released: the caller of close may open the database again.
        let _ = done.send(());
    }
}

async fn open(path: &Path, shared: &Arc<Shared>) -> Result<Tx, StoreError> {
    let connection = direct::open(path)?;
    direct::control(&connection, "BEGIN IMMEDIATE").and_then(|()| log::rewrite(path))?;
    direct::control(&connection, "COMMIT")?;
    let mut read = Read::new(Connection::SqliteWriter(connection), Arc::clone(shared), false);
    migrate::sqlite(&mut read).await?;
    read.is_transaction = true;
    Ok(Tx::new(read))
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
            self.drain_inbox();
            if !self.waiting.is_empty() {
                self.batch().await;
                self.checkpoint_if_due();
            }
        }
        if let Some(checkpoint) = self.checkpoint.take() {
            let _ = checkpoint.join();
        }
        self.readers.close().await;
        // The last connection to close checkpoints the log and removes it.
        self.close_connection();
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

    fn drain_inbox(&mut self) {
        while self.waiting.len() < MAX_BATCH_JOBS {
            match self.inbox.try_recv() {
                Ok(message) => self.accept(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
    }

    /// Runs and commits one batch, and answers all its callers.
    async fn batch(&mut self) {
        let mut done = Vec::with_capacity(self.waiting.len());
        let mut touched = Vec::new();
        let mut woken = Vec::new();
        let result = self.run_batch(&mut done, &mut touched, &mut woken).await;
        if let Err(error) = &result {
            tracing::warn!(error = error as &dyn std::error::Error, jobs = done.len(), "write batch failed");
            self.roll_back_batch(error);
        } else {
            self.count_commit();
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
        if let Err(error) = self.begin(is_full) {
            done.extend(self.waiting.drain(..));
            return Err(error);
        }
        let started = Instant::now();
        let mut is_savepoint_clean = true;
        loop {
            let Some(mut job) = self.next_job(is_full, done.len(), started) else { break };
            let Some(tx) = self.tx.as_mut() else {
                done.push(job);
                return Err(StoreError::Closed);
            };
            if !is_savepoint_clean
                && let Err(error) = control(tx, "RELEASE job").and_then(|()| control(tx, "SAVEPOINT job"))
            {
                done.push(job);
                return Err(error);
            }
            tx.reset();
            let (job_started, changes) = (Instant::now(), total_changes(tx));
            let outcome = job.run(tx).await;
            let took = job_started.elapsed();
            if tx.keeps_version {
                self.changes += total_changes(tx) - changes;
            }
            if took > SLOW_JOB_THRESHOLD {
                let work = job.name();
                job.span().in_scope(|| {
                    tracing::warn!(took_ms = took.as_millis(), %work, "a transaction held up all other writers");
                });
            }
            done.push(job);
            match outcome {
                Outcome::Commit => {
                    if self.shared.is_simulated {
                        tx.bump_versions(0).await?;
                    }
                    is_savepoint_clean = false;
                    touched.append(&mut tx.touched);
                    woken.append(&mut tx.woken);
                }
                Outcome::RollBack => {
                    // If SQLite rolled back the whole transaction (disk full), the savepoint is gone and the batch is
                    // lost.
                    let failure = tx.read.failure.take();
                    if let Err(error) = control(tx, "ROLLBACK TO job") {
                        return Err(failure.filter(StoreError::is_unavailable).unwrap_or(error));
                    }
                    is_savepoint_clean = true;
                }
            }
        }
        let tx = self.tx.as_mut().ok_or(StoreError::Closed)?;
        control(tx, "COMMIT")
    }

    /// Returns the next closure of the running batch, or `None` if the batch must end.
    fn next_job(&mut self, is_full: bool, count: usize, started: Instant) -> Option<Box<dyn Job>> {
        if count >= MAX_BATCH_JOBS || (count > 0 && started.elapsed() >= MAX_BATCH_DURATION) {
            return None;
        }
        if self.waiting.is_empty() {
            self.drain_inbox();
        }
        if !is_full && self.waiting.front().is_some_and(|job| job.plan().durability == Durability::Full) {
            return None;
        }
        self.waiting.pop_front()
    }

    fn begin(&mut self, is_full: bool) -> Result<(), StoreError> {
        let is_new = self.tx.is_none();
        if is_new {
            let connection = direct::open(&self.path)?;
            let read = Read::new(Connection::SqliteWriter(connection), Arc::clone(&self.shared), true);
            self.tx = Some(Tx::new(read));
            self.changes = 0;
            self.is_full = false;
            // A failed commit may have taken effect without notification.
            self.shared.signals.bump_all();
            self.shared.commits.send_modify(|commits| *commits += 1);
        }
        let tx = self.tx.as_mut().ok_or(StoreError::Closed)?;
        if self.is_full != is_full {
            control(tx, if is_full { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })?;
            self.is_full = is_full;
        }
        control(tx, "BEGIN IMMEDIATE")?;
        if is_new {
            log::rewrite(&self.path)?;
        }
        control(tx, "SAVEPOINT job")
    }

    /// Counts the commit unless it changed nothing.
    fn count_commit(&mut self) {
        let Some(changes) = self.tx.as_ref().map(total_changes) else { return };
        if changes != std::mem::replace(&mut self.changes, changes) {
            self.shared.commits.send_modify(|commits| *commits += 1);
        }
    }

    /// Rolls back a failed batch and closes a broken connection.
    fn roll_back_batch(&mut self, error: &StoreError) {
        let Some(tx) = self.tx.as_mut() else { return };
        // Fails if SQLite has already rolled back, which is equivalent.
        let _ = control(tx, "ROLLBACK");
        if error.is_unavailable() {
            self.abandon_connection();
        }
    }

    fn abandon_connection(&mut self) {
        if let Some(Connection::SqliteWriter(connection)) = self.tx.as_ref().map(|tx| &tx.read.connection) {
            log::disable_checkpoint_on_close(connection);
        }
        self.close_connection();
    }

    fn close_connection(&mut self) {
        if let Some(tx) = self.tx.take()
            && let Connection::SqliteWriter(connection) = tx.read.connection
            && let Err((_, error)) = connection.close()
        {
            tracing::warn!(%error, "failed to close the database");
        }
    }

    fn checkpoint_if_due(&mut self) {
        if let Some(finished) = self.checkpoint.take_if(|running| running.is_finished()) {
            if !finished.join().unwrap_or(true) {
                return self.abandon_connection();
            }
            // Few commits happened meanwhile. Once they are copied too, the log restarts unless a reader is active.
            return self.checkpoint_with(|connection| direct::control(connection, log::PASSIVE_CHECKPOINT));
        }
        let pages = direct::log_pages();
        if pages < CHECKPOINT_PAGES {
            self.next_checkpoint = CHECKPOINT_PAGES;
        }
        if pages < self.next_checkpoint || self.checkpoint.is_some() {
            return;
        }
        // A reader of an old state can block the checkpoint: retry only after further growth.
        self.next_checkpoint = pages + CHECKPOINT_PAGES.max(pages / 4);
        if pages >= BLOCKING_CHECKPOINT_PAGES {
            return self.checkpoint_with(direct::restart_log);
        }
        match log::start_checkpoint(self.path.clone()) {
            Ok(running) => self.checkpoint = Some(running),
            Err(error) => tracing::warn!(%error, "failed to start the checkpoint thread"),
        }
    }

    fn checkpoint_with(&mut self, copy: impl FnOnce(&rusqlite::Connection) -> Result<(), StoreError>) {
        if let Some(Connection::SqliteWriter(connection)) = self.tx.as_ref().map(|tx| &tx.read.connection)
            && !log::checkpoint(connection, copy)
        {
            self.close_connection();
        }
    }
}

/// Returns the total number of changes since the connection was opened.
fn total_changes(tx: &Tx) -> u64 {
    match &tx.read.connection {
        Connection::SqliteWriter(connection) => connection.total_changes(),
        _ => 0,
    }
}

/// Runs a statement of the batch itself.
fn control(tx: &mut Tx, sql: &'static str) -> Result<(), StoreError> {
    let Connection::SqliteWriter(connection) = &tx.read.connection else { return Err(StoreError::Closed) };
    direct::control(connection, sql)
}
