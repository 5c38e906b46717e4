//! PostgreSQL, shared by any number of replicas: a pool for reading on the caller's runtime, and one
//! thread on which all transactions run side by side.

pub(crate) mod codec;
mod notify;
mod pooled;
mod readers;
mod renumber;
mod server;
mod writer;

use std::sync::Arc;

use agentd_base::Secret;
use sqlx::Connection as _;
use tokio::sync::{mpsc, oneshot};

use crate::job::Message;
use crate::migrate;
use crate::read::{Connection, Read};
use crate::schema::pending;
use crate::shared::Shared;
use crate::{StoreError, args};
pub(crate) use notify::Presence;
pub(crate) use pooled::Pooled;
pub(crate) use readers::{Reader, Readers};
use server::Server;
pub(crate) use server::{Limits, connect};

const QUEUE_LENGTH: usize = 1024;
/// Only one replica prepares the database at a time; the number means nothing.
const PREPARATION_LOCK: i64 = 0x6167_656e_7464;

#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) readers: Readers,
    pub(crate) presence: Arc<Presence>,
    pub(crate) jobs: mpsc::Sender<Message>,
}

pub(crate) async fn open(url: &Secret, shared: Arc<Shared>) -> Result<Postgres, StoreError> {
    let server = Arc::new(Server::at(url)?);
    // It has served its purpose, whatever becomes of its goodbye.
    drop(server.connect().await?.close().await);
    let readers = Readers::new(Arc::clone(&server));
    let connection = readers.acquire().await?;
    let mut read = Read::new(Connection::Postgres(connection), Arc::clone(&shared), false);
    prepare(&mut read).await?;
    drop(read);
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    let presence = Arc::new(Presence::default());
    writer::start(server, shared, Arc::clone(&presence), inbox)?;
    // Before it works, so that nobody replaces the database's contents for taking himself for alone.
    let _ = presence.listening().await;
    Ok(Postgres { readers, presence, jobs })
}

/// One query when there is nothing to do.
async fn prepare(read: &mut Read) -> Result<(), StoreError> {
    let sql = format!("SELECT MAX(version) AS version, {} AS is_foreign FROM schema_migrations", renumber::IS_FOREIGN);
    let (version, is_foreign) = match read.fetch_one(sql, args![]).await {
        Ok(row) => (row.get::<Option<u32>>("version")?.unwrap_or(0), row.get("is_foreign")?),
        Err(StoreError::NoTable { .. }) => (0, false),
        Err(error) => return Err(error),
    };
    if pending(version, read.shared.migrations)?.is_empty() && !is_foreign {
        return Ok(());
    }
    // Another replica may be at it, and a large table takes its time.
    read.take_time().await?;
    read.run("SELECT pg_advisory_lock($1)".into(), args![PREPARATION_LOCK]).await?;
    let prepared = async {
        migrate::postgres(read).await?;
        renumber::renumber(read).await
    }
    .await;
    // If this fails the connection is broken, and the lock went with it.
    let _ = read.run("SELECT pg_advisory_unlock($1)".into(), args![PREPARATION_LOCK]).await;
    prepared
}

impl Postgres {
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Message::Close(done)).await.is_ok() {
            drop(closed.await);
        }
        self.readers.close().await;
    }
}
