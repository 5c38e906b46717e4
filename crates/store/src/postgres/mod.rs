//! PostgreSQL, shared by any number of replicas: a pool for reading on the caller's runtime, and one
//! thread on which all transactions run side by side.

pub(crate) mod codec;
mod notify;
mod readers;
mod renumber;
mod writer;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection};
use tokio::sync::{mpsc, oneshot};

use crate::job::Job;
use crate::migrate;
use crate::read::{Connection, Read};
use crate::shared::Shared;
use crate::{StoreError, args};
pub(crate) use notify::Presence;
pub(crate) use readers::{Reader, Readers};

const QUEUE_LENGTH: usize = 1024;
const CONNECTION_IDLE: Duration = Duration::from_secs(60);
/// A connection that was idle for less is taken to be alive.
const PING_AFTER: Duration = Duration::from_secs(1);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Only one replica prepares the database at a time; the number means nothing.
const PREPARATION_LOCK: i64 = 0x6167_656e_7464;

pub(crate) enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) readers: Readers,
    pub(crate) presence: Arc<Presence>,
    pub(crate) jobs: mpsc::Sender<Message>,
}

fn options(url: &Secret) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url.expose()).map_err(|_| StoreError::InvalidUrl {
        reason: "it must look like postgres://user:password@host:5432/database".to_owned(),
    })?;
    let name = options.get_application_name().unwrap_or("agentd").to_owned();
    Ok(options
        .application_name(&name)
        .statement_cache_capacity(256)
        // What `write` promises must not depend on the server's setting.
        .options([("synchronous_commit", "on")])
        .disable_statement_logging())
}

fn pool_options(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(0)
        .idle_timeout(CONNECTION_IDLE)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
}

/// A connection of its own, or why there is none. A pool would keep that to itself, and nobody would say
/// where the server was looked for.
pub(crate) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let error = match tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error,
        Err(_) => {
            let seconds = ACQUIRE_TIMEOUT.as_secs();
            let reason = format!("PostgreSQL at {} did not answer within {seconds} seconds", place(options));
            return Err(StoreError::Unavailable { reason, source: None });
        }
    };
    let reason = match &error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => "cannot be reached",
        _ => "refuses the connection",
    };
    let reason = format!("PostgreSQL at {} {reason}", place(options));
    Err(StoreError::Unavailable { reason, source: Some(Arc::new(error)) })
}

/// Where the server is, without who asks.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

pub(crate) async fn open(url: &Secret, shared: Arc<Shared>) -> Result<Postgres, StoreError> {
    let options = options(url)?;
    // It has served its purpose, whatever becomes of its goodbye.
    drop(connect(&options).await?.close().await);
    let readers = Readers::new(options.clone());
    let connection = readers.acquire().await?;
    let mut read = Read::new(Connection::Postgres(connection), Arc::clone(&shared), false);
    prepare(&mut read).await?;
    drop(read);
    let (jobs, inbox) = mpsc::channel(QUEUE_LENGTH);
    let presence = Arc::new(Presence::default());
    writer::start(options, shared, Arc::clone(&presence), inbox)?;
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
    if migrate::pending(version, read.shared.migrations)?.is_empty() && !is_foreign {
        return Ok(());
    }
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
