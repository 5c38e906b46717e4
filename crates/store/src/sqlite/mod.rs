//! SQLite: one writer thread, a few lazily opened readers, one file in WAL mode.

pub(crate) mod codec;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use crate::job::Job;
use crate::lock::DataDirLock;
use crate::migrate::{self, Migration};
use crate::read::{Connection, Read};
use crate::shared::Shared;
use crate::{StoreError, Tx};

/// Jobs that may wait for the writer; more callers wait in line for a place.
const QUEUE_LENGTH: usize = 1024;
const READERS: u32 = 4;
/// A reader that was idle this long gives its memory back.
const READER_IDLE: Duration = Duration::from_secs(30);
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct Sqlite {
    pub(crate) readers: SqlitePool,
    pub(crate) jobs: mpsc::Sender<Message>,
}

/// How a connection to the file is opened. Memory stays small: 2 MiB of cache at most for the
/// writer, 512 KiB for a reader, nothing mapped.
fn options(path: &Path, cache_kib: u32) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(256)
        .pragma("cache_size", format!("-{cache_kib}"))
        .pragma("mmap_size", "0")
        // Checkpoints run beside the commits, see `writer`.
        .pragma("wal_autocheckpoint", "0")
        .pragma("journal_size_limit", "67108864")
        .thread_name(|id| format!("sqlite-{id}"))
        .disable_statement_logging()
}

pub(crate) async fn open(
    path: PathBuf,
    shared: Arc<Shared>,
    migrations: &'static [Migration],
) -> Result<Sqlite, StoreError> {
    let lock = DataDirLock::take(&shared.data_dir)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|e| StoreError::io("creating", parent, e))?;
    }
    let writer_options = options(&path, 2048);
    let connection = writer_options.connect().await?;
    let mut read = Read::new(Connection::SqliteWriter(connection), Arc::clone(&shared), false);
    migrate::sqlite(&mut read, migrations).await?;
    let Connection::SqliteWriter(connection) = read.connection else { return Err(StoreError::Closed) };

    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .idle_timeout(READER_IDLE)
        .max_lifetime(None)
        .acquire_timeout(Duration::from_secs(30))
        .test_before_acquire(false)
        .connect_lazy_with(options(&path, 512).pragma("query_only", "ON"));
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    writer::start(connection, writer_options, path, readers.clone(), shared, inbox, lock)?;
    Ok(Sqlite { readers, jobs })
}

impl Sqlite {
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Message::Close(done)).await.is_ok() {
            // An error means that the writer is gone, which is what was wanted.
            drop(closed.await);
        }
        self.readers.close().await;
    }
}

/// A transaction handle over the writer's connection.
fn writer_tx(connection: sqlx::SqliteConnection, shared: &Arc<Shared>) -> Tx {
    Tx::new(Read::new(Connection::SqliteWriter(connection), Arc::clone(shared), true))
}

async fn close_connection(tx: Tx) {
    if let Connection::SqliteWriter(connection) = tx.read.connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "closing the database failed");
    }
}
