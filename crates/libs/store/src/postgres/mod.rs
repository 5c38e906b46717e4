//! PostgreSQL, shared by any number of replicas: a pool for reads on the caller's runtime, and one thread on which all
//! transactions run concurrently.

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
/// Key of the advisory lock that lets one replica at a time prepare the database; the value is arbitrary.
const PREPARATION_LOCK: i64 = 0x6167_656e_7464;

#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) readers: Readers,
    pub(crate) presence: Arc<Presence>,
    pub(crate) jobs: mpsc::Sender<Message>,
}

pub(crate) async fn open(url: &Secret, shared: Arc<Shared>) -> Result<Postgres, StoreError> {
    let server = Arc::new(Server::at(url)?);
    // The connection only checked that the server is reachable; a failed close does not matter.
    drop(server.connect().await?.close().await);
    let readers = Readers::new(Arc::clone(&server));
    let connection = readers.acquire().await?;
    let mut read = Read::new(Connection::Postgres(connection), Arc::clone(&shared), false);
    prepare(&mut read).await?;
    drop(read);
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    let presence = Arc::new(Presence::default());
    writer::start(server, shared, Arc::clone(&presence), inbox)?;
    // Registered before any work starts, so that no other daemon replaces the database contents in the belief that it
    // is alone.
    let _ = presence.listening().await;
    Ok(Postgres { readers, presence, jobs })
}

/// Migrates and renumbers if necessary; costs one query otherwise.
async fn prepare(read: &mut Read) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT MAX(version) AS version, {} AS has_foreign_positions FROM schema_migrations",
        renumber::HAS_FOREIGN_POSITIONS
    );
    let (version, has_foreign_positions) = match read.fetch_one(sql, args![]).await {
        Ok(row) => (row.get::<Option<u32>>("version")?.unwrap_or(0), row.get("has_foreign_positions")?),
        Err(StoreError::NoTable { .. }) => (0, false),
        Err(error) => return Err(error),
    };
    if pending(version, read.shared.migrations)?.is_empty() && !has_foreign_positions {
        return Ok(());
    }
    // Another replica may hold the lock, and a large table takes long to migrate.
    read.lift_time_limit().await?;
    read.run("SELECT pg_advisory_lock($1)".into(), args![PREPARATION_LOCK]).await?;
    let prepared = async {
        migrate::postgres(read).await?;
        renumber::renumber(read).await
    }
    .await;
    // If this fails, the connection is broken and the lock is released with it.
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
