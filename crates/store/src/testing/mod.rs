//! A throwaway database for tests, of this crate and of those above it: SQLite in a temporary
//! folder, or a schema of its own in the PostgreSQL that `AGENTD_TEST_DATABASE_URL` names.

pub mod faults;
pub mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, MockClock, Secret, Timestamp};

use crate::db::Purpose;
use crate::dump::catalog;
use crate::{DatabaseUrl, Db, DbOptions, Dialect, Migration, OWN_MIGRATIONS, Read, StoreError, args};

/// The variable that makes tests run on PostgreSQL.
pub const DATABASE_URL_VARIABLE: &str = "AGENTD_TEST_DATABASE_URL";

/// A database, its folder, and the clock it lives by. The folder goes with this value.
#[derive(Debug)]
pub struct TestDb {
    pub db: Db,
    pub clock: MockClock,
    folder: tempfile::TempDir,
    options: DbOptions,
    schema: Option<(Secret, String)>,
}

/// The PostgreSQL to test on, if one is named.
#[must_use]
pub fn postgres_url() -> Option<Secret> {
    std::env::var(DATABASE_URL_VARIABLE).ok().filter(|url| !url.is_empty()).map(Secret::new)
}

/// Opens a SQLite database as one of several daemons that a simulation runs over the same file, each with a data
/// directory, a clock and ids of its own. All that the database does happens on the thread that asks, in turn, so
/// that nothing depends on how long something takes. Must be called within a `LocalSet`; whoever drops that kills
/// the daemon's part of the database where it is.
///
/// # Errors
/// As [`Db::open`].
pub async fn open_simulated(options: DbOptions) -> Result<Db, StoreError> {
    Db::open_as(options, Purpose::Simulation).await
}

impl TestDb {
    /// A fresh database on PostgreSQL if one is named, else on SQLite.
    ///
    /// # Errors
    /// What stands in the way.
    pub async fn start() -> Result<Self, StoreError> {
        let dialect = if postgres_url().is_some() { Dialect::Postgres } else { Dialect::Sqlite };
        Self::start_on(dialect, OWN_MIGRATIONS).await
    }

    /// A fresh database of a kind, with migrations of one's own.
    ///
    /// # Errors
    /// What stands in the way; PostgreSQL needs to be named.
    pub async fn start_on(dialect: Dialect, migrations: &'static [Migration]) -> Result<Self, StoreError> {
        let folder = tempfile::tempdir()?;
        let clock = MockClock::new(Timestamp::from_micros(1_780_000_000_000_000));
        let (url, schema) = match dialect {
            Dialect::Sqlite => (DatabaseUrl::Sqlite { path: folder.path().join("agentd.db") }, None),
            Dialect::Postgres => {
                let server = postgres_url().ok_or_else(|| StoreError::InvalidUrl {
                    reason: format!("{DATABASE_URL_VARIABLE} does not name a PostgreSQL"),
                })?;
                let ids = IdGenerator::new(Clock::system(), Entropy::system());
                let schema = format!("test_{}", ids.next_ulid());
                administer(&server, format!("CREATE SCHEMA {schema}")).await?;
                let separator = if server.expose().contains('?') { '&' } else { '?' };
                let url =
                    format!("{}{separator}options[search_path]={schema}&application_name={schema}", server.expose());
                (DatabaseUrl::Postgres(Secret::new(url)), Some((server, schema)))
            }
        };
        let entropy = Entropy::seeded(7);
        let ids = IdGenerator::new(clock.clock(), entropy.clone());
        let data_dir = folder.path().to_owned();
        let options = DbOptions { url, data_dir, clock: clock.clock(), ids, entropy, migrations };
        let db = Db::open(options.clone()).await?;
        Ok(Self { db, clock, folder, options, schema })
    }

    #[must_use]
    pub fn options(&self) -> &DbOptions {
        &self.options
    }

    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.folder.path()
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("agentd.db")
    }

    /// Closes the database and removes it.
    ///
    /// # Errors
    /// When PostgreSQL does not drop the schema.
    pub async fn end(self) -> Result<(), StoreError> {
        self.db.close().await;
        if let Some((server, schema)) = self.schema {
            administer(&server, format!("DROP SCHEMA {schema} CASCADE")).await?;
        }
        Ok(())
    }
}

async fn administer(server: &Secret, sql: String) -> Result<(), StoreError> {
    use sqlx::Connection as _;
    let mut connection = sqlx::PgConnection::connect(server.expose()).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// The schema in words that are the same in both dialects: a line for each column, with its type
/// and whether it may be NULL, and one for each unique key. Columns of the primary key count as not
/// nullable.
///
/// # Errors
/// What the database refuses.
pub async fn describe_schema(db: &Db) -> Result<BTreeSet<String>, StoreError> {
    let mut read = db.read_snapshot().await?;
    let mut lines = BTreeSet::new();
    for table in catalog::all_tables(&mut read).await? {
        for column in &table.columns {
            let is_nullable = column.is_nullable && !table.primary_key.contains(&column.name);
            let nullable = if is_nullable { " or NULL" } else { "" };
            lines.insert(format!("{}.{}: {}{nullable}", table.name, column.name, column.kind));
        }
    }
    lines.extend(unique_keys(&mut read).await?.into_iter().map(|key| format!("unique {key}")));
    Ok(lines)
}

/// The columns of every unique index and primary key, as `table(column, …)`: what the two dialects
/// must agree on.
async fn unique_keys(read: &mut Read) -> Result<BTreeSet<String>, StoreError> {
    let sql = match read.dialect() {
        Dialect::Sqlite => {
            "SELECT t.name AS table_name, l.name AS index_name, i.name AS column_name \
             FROM sqlite_master t JOIN pragma_index_list(t.name) l JOIN pragma_index_info(l.name) i \
             WHERE t.type = 'table' AND l.\"unique\" = 1 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
             ORDER BY t.name, l.name, i.seqno"
        }
        Dialect::Postgres => {
            "SELECT t.relname AS table_name, x.relname AS index_name, a.attname AS column_name \
             FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid \
             CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) \
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum \
             WHERE i.indisunique AND t.relnamespace = current_schema()::regnamespace \
             ORDER BY t.relname, x.relname, k.place"
        }
    };
    let mut keys: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for row in read.fetch_all(sql, args![]).await? {
        keys.entry((row.get("table_name")?, row.get("index_name")?)).or_default().push(row.get("column_name")?);
    }
    let mut texts: BTreeSet<String> =
        keys.into_iter().map(|((table, _), columns)| format!("{table}({})", columns.join(", "))).collect();
    // SQLite gives an INTEGER PRIMARY KEY no index of its own.
    for table in catalog::all_tables(read).await? {
        if !table.primary_key.is_empty() {
            texts.insert(format!("{}({})", table.name, table.primary_key.join(", ")));
        }
    }
    Ok(texts)
}
