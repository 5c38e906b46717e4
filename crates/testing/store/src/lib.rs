//! Temporary databases for tests: SQLite in a temporary folder, or a schema of its own in the PostgreSQL database of
//! `AGENTD_TEST_DATABASE_URL`. [`faults`] injects disk and connection faults.

pub mod faults;

use std::path::{Path, PathBuf};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, MockClock, Secret, Timestamp};
use agentd_store::{DatabaseUrl, Db, DbOptions, Dialect, Migration, OWN_MIGRATIONS, StoreError};

/// Environment variable that makes tests run on PostgreSQL.
pub const DATABASE_URL_VARIABLE: &str = "AGENTD_TEST_DATABASE_URL";

/// Database with its folder and clock. The folder is deleted with this value.
#[derive(Debug)]
pub struct TestDb {
    pub db: Db,
    pub clock: MockClock,
    folder: tempfile::TempDir,
    options: DbOptions,
    schema: Option<(Secret, String)>,
}

/// Returns the URL of the PostgreSQL database for tests, if configured.
#[must_use]
pub fn postgres_url() -> Option<Secret> {
    std::env::var(DATABASE_URL_VARIABLE).ok().filter(|url| !url.is_empty()).map(Secret::new)
}

impl TestDb {
    /// Creates a database on PostgreSQL if configured, else on SQLite.
    ///
    /// # Errors
    /// The database cannot be created.
    pub async fn start() -> Result<Self, StoreError> {
        let dialect = if postgres_url().is_some() { Dialect::Postgres } else { Dialect::Sqlite };
        Self::start_on(dialect, OWN_MIGRATIONS).await
    }

    /// Creates a database with this dialect and these migrations.
    ///
    /// # Errors
    /// The database cannot be created, or PostgreSQL is not configured.
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

    /// Closes the database and deletes it.
    ///
    /// # Errors
    /// PostgreSQL does not drop the schema.
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
