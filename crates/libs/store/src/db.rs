//! Handle of an open database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use tokio::sync::watch;

use crate::job::{ClosureJob, Durability, Isolation, Message, Plan, is_transaction_thread};
use crate::lock::create_private_folder;
use crate::read::{Connection, Read};
use crate::schema::Migration;
use crate::shared::Shared;
use crate::topic::{Signals, Topic};
use crate::{Dialect, StoreError, Tx, args, postgres, sqlite};

/// Location of the database.
#[derive(Debug, Clone)]
pub enum DatabaseUrl {
    Sqlite {
        path: PathBuf,
    },
    /// `postgres://` URL, including its password.
    Postgres(Secret),
}

impl DatabaseUrl {
    /// Parses a database URL; without one, returns `agentd.db` in the data directory.
    ///
    /// # Errors
    /// `StoreError::InvalidUrl`, which never contains the URL because that may hold a password.
    pub fn parse(address: Option<&Secret>, data_dir: &Path) -> Result<Self, StoreError> {
        let Some(address) = address else { return Ok(Self::Sqlite { path: data_dir.join("agentd.db") }) };
        let text = address.expose();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(address.clone()));
        }
        match text.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite { path: data_dir.join(path) }),
            _ => Err(StoreError::InvalidUrl {
                reason: "it must start with `postgres://`, or with `sqlite:` followed by a path".to_owned(),
            }),
        }
    }
}

/// Shows the engine and the location, without credentials and options.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path } => write!(f, "SQLite {}", path.display()),
            Self::Postgres(address) => {
                let address = address.expose();
                let location = address.split_once("://").map_or(address, |(_, location)| location);
                let location = location.split('?').next().unwrap_or_default();
                let location = location.rsplit_once('@').map_or(location, |(_, location)| location);
                write!(f, "PostgreSQL {location}")
            }
        }
    }
}

/// Options of [`Db::open`].
#[derive(Debug, Clone)]
pub struct DbOptions {
    pub url: DatabaseUrl,
    /// Directory of the lock file, of copies made before migrations and, by default, of the SQLite file.
    pub data_dir: PathBuf,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub entropy: Entropy,
    /// Migrations of the whole program, including [`OWN_MIGRATIONS`](crate::OWN_MIGRATIONS).
    pub migrations: &'static [Migration],
}

/// Purpose a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Daemon,
    /// Temporary database.
    Scratch,
    /// Shared by several simulated daemons on the current thread.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only used by tests"))]
    Simulation,
}

#[derive(Debug)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    backend: Backend,
}

/// Open database. Cheap to clone. Dropping the last clone closes it in the background; [`close`](Self::close) waits for
/// that.
#[derive(Debug, Clone)]
pub struct Db(Arc<Inner>);

impl Db {
    /// Opens the database, takes the data directory's lock (SQLite), and migrates.
    ///
    /// # Errors
    /// `AlreadyRunning`, `NewerSchema`, `OldSqlite`, `InvalidUrl`, a failed migration, or
    /// `Unavailable`.
    pub async fn open(options: DbOptions) -> Result<Self, StoreError> {
        Self::open_as(options, Purpose::Daemon).await
    }

    /// Opens a temporary SQLite database in `folder` with the clock and ids of this one.
    pub(crate) async fn open_scratch(
        &self,
        folder: &Path,
        migrations: &'static [Migration],
    ) -> Result<Self, StoreError> {
        let options = DbOptions {
            url: DatabaseUrl::Sqlite { path: folder.join("scratch.db") },
            data_dir: folder.to_owned(),
            clock: self.clock().clone(),
            ids: self.ids().clone(),
            entropy: self.entropy().clone(),
            migrations,
        };
        Self::open_as(options, Purpose::Scratch).await
    }

    pub(crate) async fn open_as(options: DbOptions, purpose: Purpose) -> Result<Self, StoreError> {
        let DbOptions { url, data_dir, clock, ids, entropy, migrations } = options;
        create_private_folder(&data_dir)?;
        let dialect = match &url {
            DatabaseUrl::Sqlite { .. } => Dialect::Sqlite,
            DatabaseUrl::Postgres(_) => Dialect::Postgres,
        };
        let shared = Arc::new(Shared {
            dialect,
            clock,
            ids,
            entropy,
            data_dir,
            migrations,
            is_scratch: purpose == Purpose::Scratch,
            is_simulated: purpose == Purpose::Simulation,
            signals: Signals::default(),
            is_outbox_wake_due: AtomicBool::new(false),
            commits: watch::Sender::new(0),
            outbox_retries: AtomicU32::new(0),
            idempotency_records: AtomicU64::new(0),
        });
        let backend = match url {
            DatabaseUrl::Sqlite { path } => Backend::Sqlite(sqlite::open(path, Arc::clone(&shared)).await?),
            DatabaseUrl::Postgres(url) => Backend::Postgres(postgres::open(&url, Arc::clone(&shared)).await?),
        };
        Ok(Self(Arc::new(Inner { shared, backend })))
    }

    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.0.shared.dialect
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.shared.clock
    }

    #[must_use]
    pub fn ids(&self) -> &IdGenerator {
        &self.0.shared.ids
    }

    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.0.shared.entropy
    }

    /// Whether this process is the only one that can use the database. Work that this process does not hold is then
    /// unclaimed.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.0.shared.is_exclusive()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Runs `work` in a transaction and returns once it is committed durably.
    ///
    /// `work` may run again after a conflict: it must have no side effects outside the database and must not wait for
    /// the network or a model. Transactions are serializable. If `work` returns an error, panics, or one of its
    /// statements fails, its changes are rolled back. It runs to completion even if the caller is cancelled.
    ///
    /// # Errors
    /// Errors of `work`, or a [`StoreError`] converted into `E`.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Plan { durability: Durability::Full, isolation: Isolation::Serializable }, work).await
    }

    /// Like [`write`](Self::write), but the change survives only a process crash, not a power failure. For stream
    /// tokens, steps and similar data.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub async fn write_relaxed<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Plan { durability: Durability::Relaxed, isolation: Isolation::Serializable }, work).await
    }

    /// Like [`write`](Self::write), but at READ COMMITTED on PostgreSQL: each statement sees the data committed when it
    /// begins. For changes that name or lock every row they depend on, such as a claim, and that must not abort other
    /// transactions.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub async fn write_locking<T, E, F>(&self, durability: Durability, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Plan { durability, isolation: Isolation::ReadCommitted }, work).await
    }

    pub(crate) async fn run<T, E, F>(&self, plan: Plan, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        if is_transaction_thread() {
            return Err(StoreError::Nested.into());
        }
        let (job, answer) = ClosureJob::new(plan, work);
        let jobs = match &self.0.backend {
            Backend::Sqlite(sqlite) => &sqlite.jobs,
            Backend::Postgres(postgres) => &postgres.jobs,
        };
        if jobs.send(Message::Job(Box::new(job))).await.is_err() {
            return Err(StoreError::Closed.into());
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Returns a connection for reading. Each statement sees the data committed when it begins. Connections are few:
    /// hold one at a time, and do not wait for anything else while holding it.
    ///
    /// # Errors
    /// `Unavailable` if no connection becomes available.
    pub async fn read(&self) -> Result<Read, StoreError> {
        let connection = match &self.0.backend {
            Backend::Sqlite(sqlite) => Connection::Sqlite(sqlite.readers.acquire().await?),
            Backend::Postgres(postgres) => Connection::Postgres(postgres.readers.acquire().await?),
        };
        Ok(Read::new(connection, Arc::clone(&self.0.shared), false))
    }

    /// Returns a connection whose statements all see the same state of the database.
    ///
    /// # Errors
    /// `Unavailable` if no connection becomes available.
    pub async fn read_snapshot(&self) -> Result<Read, StoreError> {
        let connection = match &self.0.backend {
            Backend::Sqlite(sqlite) => Connection::Sqlite(sqlite.readers.begin().await?),
            Backend::Postgres(postgres) => Connection::PostgresTransaction(postgres.readers.begin_snapshot().await?),
        };
        Ok(Read::new(connection, Arc::clone(&self.0.shared), true))
    }

    /// Finishes queued work, checkpoints the log and closes the database. Later calls return `StoreError::Closed`.
    pub async fn close(&self) {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
        }
    }

    /// Returns the number of changes of `topic` since the database was opened, as known to this process.
    #[must_use]
    pub fn generation(&self, topic: Topic) -> u64 {
        self.0.shared.signals.signal(topic.name()).generation()
    }

    /// Watches `topic`, including changes by other replicas. Changes in quick succession may be coalesced.
    #[must_use]
    pub fn watch(&self, topic: Topic) -> watch::Receiver<u64> {
        self.0.shared.signals.watch(topic.name())
    }

    /// Returns a number that changes with every write that may create work, or `None` if other processes write too. A
    /// worker that found no work can stay idle while the number is unchanged.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.is_exclusive().then(|| *self.0.shared.commits.borrow())
    }

    /// Waits until [`version`](Self::version) differs from `seen`.
    pub async fn changed_since(&self, seen: u64) {
        // Cannot fail while this handle keeps the sender alive.
        let _ = self.0.shared.commits.subscribe().wait_for(|version| *version != seen).await;
    }

    /// Returns the number of other daemons that currently use this database; always 0 on SQLite.
    ///
    /// # Errors
    /// `Unavailable` if the database cannot be queried or this daemon is not registered there.
    pub async fn count_other_daemons(&self) -> Result<u64, StoreError> {
        match &self.0.backend {
            Backend::Sqlite(_) => Ok(0),
            Backend::Postgres(postgres) => postgres.presence.count_others(&mut self.read().await?).await,
        }
    }

    /// Returns the id of the database contents. Loading a backup changes it, which invalidates derived data and every
    /// stored [`Seq`](crate::Seq).
    pub async fn database_id(&self) -> Result<String, StoreError> {
        let mut read = self.read().await?;
        read.fetch_one("SELECT value FROM store_info WHERE name = 'database_id'", args![]).await?.get("value")
    }

    /// Checks that the database can be read and written, for readiness probes.
    ///
    /// # Errors
    /// Reason why reading or writing fails.
    pub async fn check(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        // Concurrent probes of several replicas must not conflict.
        let plan = Plan { durability: Durability::Relaxed, isolation: Isolation::ReadCommitted };
        self.run(plan, async move |tx: &mut Tx| {
            tx.keep_version();
            tx.execute(
                "INSERT INTO store_info (name, value) VALUES ('checked_at', $1) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                args![now.to_string()],
            )
            .await
        })
        .await?;
        self.read().await?.fetch_one("SELECT value FROM store_info WHERE name = 'checked_at'", args![]).await?;
        Ok(())
    }
}
