//! SQLite: one writer thread, a few lazily opened readers, one file in WAL mode.

pub(crate) mod codec;
pub(crate) mod direct;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::job::Job;
use crate::lock::{DataDirLock, create_private_folder};
use crate::migrate::Migration;
use crate::shared::Shared;

/// Jobs that may wait for the writer; more callers wait in line for a place.
const QUEUE_LENGTH: usize = 1024;
const READERS: u32 = 4;
/// A reader that was idle this long gives its memory back.
const READER_IDLE: Duration = Duration::from_secs(30);
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) enum Message {
    Job(Box<dyn Job>),
    ReleaseCaches(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct Sqlite {
    pub(crate) readers: SqlitePool,
    pub(crate) jobs: mpsc::Sender<Message>,
}

/// How a reader opens the file. Its cache stays small, nothing is mapped.
fn reader_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(128)
        .pragma("cache_size", "-512")
        .pragma("mmap_size", "0")
        .pragma("query_only", "ON")
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
        create_private_folder(parent)?;
    }
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .idle_timeout(READER_IDLE)
        .max_lifetime(None)
        .acquire_timeout(Duration::from_secs(30))
        .test_before_acquire(false)
        .connect_lazy_with(reader_options(&path));
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    writer::start(path, readers.clone(), shared, migrations, inbox, lock).await?;
    Ok(Sqlite { readers, jobs })
}

impl Sqlite {
    pub(crate) async fn release_caches(&self) {
        while let Some(reader) = self.readers.try_acquire() {
            if let Err(error) = reader.close().await {
                tracing::debug!(%error, "closing an idle reader failed");
            }
        }
        let (done, released) = oneshot::channel();
        if self.jobs.send(Message::ReleaseCaches(done)).await.is_ok() {
            // An error means that the writer is gone, with its caches.
            drop(released.await);
        }
    }

    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Message::Close(done)).await.is_ok() {
            // An error means that the writer is gone, which is what was wanted.
            drop(closed.await);
        }
        self.readers.close().await;
    }
}
