//! SQLite: one writer thread, a few lazily opened readers, one file in WAL mode.

pub(crate) mod direct;
mod log;
pub(crate) mod readers;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use self::readers::Readers;
use crate::StoreError;
use crate::job::Message;
use crate::lock::{DataDirLock, create_private_folder};
use crate::shared::Shared;

/// Capacity of the writer's queue; further callers wait in order.
const QUEUE_LENGTH: usize = 1024;

#[derive(Debug)]
pub(crate) struct Sqlite {
    pub(crate) readers: Readers,
    pub(crate) jobs: mpsc::Sender<Message>,
}

pub(crate) async fn open(path: PathBuf, shared: Arc<Shared>) -> Result<Sqlite, StoreError> {
    let lock = DataDirLock::take(&shared.data_dir).await?;
    if let Some(parent) = path.parent() {
        create_private_folder(parent)?;
    }
    let readers = Readers::new(path.clone(), shared.is_simulated);
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    writer::start(path, readers.clone(), shared, inbox, lock).await?;
    Ok(Sqlite { readers, jobs })
}

impl Sqlite {
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Message::Close(done)).await.is_ok() {
            // An error means that the writer has already stopped.
            drop(closed.await);
        }
        self.readers.close().await;
    }
}
