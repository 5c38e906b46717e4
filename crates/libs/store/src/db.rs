//! The open database.

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

/// Where the database is.
#[derive(Debug, Clone)]
pub enum DatabaseUrl {
    Sqlite {
        path: PathBuf,
    },
    /// A `postgres://` address with its password.
    Postgres(Secret),
}

impl DatabaseUrl {
    /// The database that an address names; without one, `agentd.db` in the data directory.
    ///
    /// # Errors
    /// `StoreError::InvalidUrl`, which never repeats the address: it may hold a password.
    pub fn parse(address: Option<&Secret>, data_dir: &Path) -> Result<Self, StoreError> {
        let Some(address) = address else { return Ok(Self::Sqlite { path: data_dir.join("agentd.db") }) };
        let text = address.expose();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(address.clone()));
        }
        match text.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite { path: data_dir.join(path) }),
            _ => Err(StoreError::InvalidUrl {
                reason: "it must begin with `postgres://` or be `sqlite:` and a path".to_owned(),
            }),
        }
    }
}

/// What [`Db::open`] needs.
#[derive(Debug, Clone)]
pub struct DbOptions {
    pub url: DatabaseUrl,
    /// Holds the lock, the copies made before migrations and, by default, the SQLite file.
    pub data_dir: PathBuf,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub entropy: Entropy,
    /// Those of the whole program, [`OWN_MIGRATIONS`](crate::OWN_MIGRATIONS) among them.
    pub migrations: &'static [Migration],
}

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Daemon,
    /// It is thrown away soon.
    Scratch,
    /// It is shared by several daemons of this thread.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "tests alone simulate"))]
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

/// An open database. Cheap to clone; the last clone that goes away closes it in the background,
/// [`close`](Self::close) does so and waits.
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

    /// A SQLite database in `folder` for a while, living by this one's time and ids.
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
            outbox_looks: AtomicU32::new(0),
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

    /// Whether no other daemon can work on this database: whatever this one does not hold itself is nobody's.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.0.shared.is_exclusive()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Runs `work` in a transaction and answers once it is committed and survives a power cut.
    ///
    /// `work` may run again when it collided with another one: it must change nothing but the
    /// database, and must not wait for the network or a model. Transactions are serial: each sees
    /// all that was committed before, and nothing that runs beside it. If `work` answers an error,
    /// panics, or one of its statements failed, everything it did is taken back. It runs to its end
    /// even if the caller stops waiting.
    ///
    /// # Errors
    /// What `work` answers, or a [`StoreError`] turned into it.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Plan { durability: Durability::Full, isolation: Isolation::Serializable }, work).await
    }

    /// Like [`write`](Self::write), but the change survives only the process being killed, not a
    /// power cut. For stream tokens, steps and the like.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_relaxed<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.run(Plan { durability: Durability::Relaxed, isolation: Isolation::Serializable }, work).await
    }

    /// Like [`write`](Self::write), but on PostgreSQL at READ COMMITTED: each statement sees what is committed
    /// when it begins. For changes that name or lock every row that they depend on, such as a claim or what its
    /// holder records, and that must not make others run again.
    ///
    /// # Errors
    /// As [`write`](Self::write).
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

    /// A connection for reading. Each statement sees what is committed when it begins. There are
    /// few: hold one at a time, and not while waiting for anything else.
    ///
    /// # Errors
    /// `Unavailable` when no connection can be had.
    pub async fn read(&self) -> Result<Read, StoreError> {
        let connection = match &self.0.backend {
            Backend::Sqlite(sqlite) => Connection::Sqlite(sqlite.readers.acquire().await?),
            Backend::Postgres(postgres) => Connection::Postgres(postgres.readers.acquire().await?),
        };
        Ok(Read::new(connection, Arc::clone(&self.0.shared), false))
    }

    /// A connection whose statements all see one state of the database.
    ///
    /// # Errors
    /// `Unavailable` when no connection can be had.
    pub async fn read_snapshot(&self) -> Result<Read, StoreError> {
        let connection = match &self.0.backend {
            Backend::Sqlite(sqlite) => Connection::Sqlite(sqlite.readers.begin().await?),
            Backend::Postgres(postgres) => Connection::PostgresTransaction(postgres.readers.begin_snapshot().await?),
        };
        Ok(Read::new(connection, Arc::clone(&self.0.shared), true))
    }

    /// Finishes what is queued, copies the log back and closes. Later calls answer
    /// `StoreError::Closed`.
    pub async fn close(&self) {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
        }
    }

    /// How often `topic` has changed since the database was opened, as far as this process knows.
    #[must_use]
    pub fn generation(&self, topic: Topic) -> u64 {
        self.0.shared.signals.signal(topic.name()).generation()
    }

    /// Tells when `topic` changes, also by another replica. Changes in quick succession may be told
    /// once.
    #[must_use]
    pub fn watch(&self, topic: Topic) -> watch::Receiver<u64> {
        self.0.shared.signals.watch(topic.name())
    }

    /// A number that changes whenever anything in the database does that may give somebody something to do; none
    /// where other programs write too. Whoever found nothing to do need not look again while it stays the same.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.is_exclusive().then(|| *self.0.shared.commits.borrow())
    }

    /// Waits until [`version`](Self::version) is another one than `seen`.
    pub async fn changed_since(&self, seen: u64) {
        // Does not fail while the database is held here.
        let _ = self.0.shared.commits.subscribe().wait_for(|version| *version != seen).await;
    }

    /// How many other daemons work on this database now. On SQLite there can be none.
    ///
    /// # Errors
    /// What the database refuses, or this daemon cannot make itself known there.
    pub async fn count_other_daemons(&self) -> Result<u64, StoreError> {
        match &self.0.backend {
            Backend::Sqlite(_) => Ok(0),
            Backend::Postgres(postgres) => postgres.presence.count_others(&mut self.read().await?).await,
        }
    }

    /// Names this database's contents. It changes when a backup is loaded: what was derived from
    /// the old contents, and every [`Seq`](crate::Seq) kept outside, is then void.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn database_id(&self) -> Result<String, StoreError> {
        let mut read = self.read().await?;
        read.fetch_one("SELECT value FROM store_info WHERE name = 'database_id'", args![]).await?.get("value")
    }

    /// Proves that the database can be read and written now, for readiness.
    ///
    /// # Errors
    /// What stands in the way.
    pub async fn check(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        // Replicas that probe at once must not collide.
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
