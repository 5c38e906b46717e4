//! Reading: a connection for queries.

use std::fmt;
use std::sync::Arc;

use agentd_base::Clock;
use agentd_base::id::IdGenerator;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::PgArguments;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::postgres::{Pooled, Reader as PostgresReader, codec};
use crate::shared::Shared;
use crate::sqlite::direct;
use crate::sqlite::readers::Reader as SqliteReader;
use crate::{Args, Dialect, Row, Sql, StoreError};

/// Connection that executes statements.
pub(crate) enum Connection {
    Sqlite(SqliteReader),
    SqliteWriter(rusqlite::Connection),
    Postgres(PostgresReader),
    PostgresTransaction(Pooled),
    /// The connection was lost and could not be replaced.
    Lost,
}

enum Target<'c> {
    Writer(&'c rusqlite::Connection),
    Sqlite(&'c mut SqliteReader),
    Postgres(&'c mut Pooled),
    Lost,
}

impl Connection {
    fn target(&mut self) -> Target<'_> {
        match self {
            Self::Sqlite(reader) => Target::Sqlite(reader),
            Self::SqliteWriter(connection) => Target::Writer(connection),
            Self::Postgres(reader) => Target::Postgres(&mut reader.connection),
            Self::PostgresTransaction(transaction) => Target::Postgres(transaction),
            Self::Lost => Target::Lost,
        }
    }
}

/// Connection for reading rows. Functions that only read take `&mut Read`; a `&mut Tx` dereferences to it.
pub struct Read {
    pub(crate) connection: Connection,
    pub(crate) shared: Arc<Shared>,
    /// First failure in a transaction. PostgreSQL rejects all further statements, so SQLite must as well. Also decides
    /// about retries.
    pub(crate) failure: Option<StoreError>,
    pub(crate) is_transaction: bool,
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").field("dialect", &self.shared.dialect).finish_non_exhaustive()
    }
}

impl Read {
    pub(crate) fn new(connection: Connection, shared: Arc<Shared>, is_transaction: bool) -> Self {
        Self { connection, shared, failure: None, is_transaction }
    }

    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// See [`Db::is_exclusive`](crate::Db::is_exclusive).
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.shared.is_exclusive()
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    #[must_use]
    pub fn ids(&self) -> &IdGenerator {
        &self.shared.ids
    }

    /// Returns all rows. For results bounded by a `LIMIT` or small by nature.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn fetch_all(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        let retry_statement = self.retry_statement(&sql, &args);
        match self.try_fetch_all(sql, args).await {
            Err(error) => match self.replace_connection(&error, retry_statement).await {
                Some((sql, args)) => self.try_fetch_all(sql, args).await,
                None => Err(error),
            },
            rows => rows,
        }
    }

    async fn try_fetch_all(&mut self, sql: Sql, args: Args) -> Result<Vec<Row>, StoreError> {
        self.reject_after_failure()?;
        let rows = match self.connection.target() {
            Target::Lost => Err(StoreError::Closed),
            Target::Writer(connection) => {
                args.into_values().and_then(|values| direct::fetch(connection, &sql.0, &values))
            }
            Target::Sqlite(reader) => reader.fetch(sql, args).await,
            Target::Postgres(connection) => match codec::arguments(args) {
                Ok(arguments) => {
                    connection.run(|connection| postgres_rows(connection, sql, arguments).try_collect()).await
                }
                Err(error) => Err(error),
            },
        };
        rows.map_err(|error| self.failed(error))
    }

    /// Returns exactly one row.
    ///
    /// # Errors
    /// `StoreError::NoRow` if there is no row.
    pub async fn fetch_one(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Row, StoreError> {
        self.fetch_optional(sql, args).await?.ok_or(StoreError::NoRow)
    }

    /// Returns the first row, if any. Further rows are discarded, so that a `RETURNING` statement always completes.
    pub async fn fetch_optional(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Option<Row>, StoreError> {
        let sql = sql.into();
        let retry_statement = self.retry_statement(&sql, &args);
        match self.try_fetch_optional(sql, args).await {
            Err(error) => match self.replace_connection(&error, retry_statement).await {
                Some((sql, args)) => self.try_fetch_optional(sql, args).await,
                None => Err(error),
            },
            row => row,
        }
    }

    async fn try_fetch_optional(&mut self, sql: Sql, args: Args) -> Result<Option<Row>, StoreError> {
        Ok(self.try_fetch_all(sql, args).await?.into_iter().next())
    }

    /// Clones the statement for a retry on another connection. Only outside of transactions, where statements are
    /// independent and read-only.
    fn retry_statement(&self, sql: &Sql, args: &Args) -> Option<(Sql, Args)> {
        let Connection::Postgres(reader) = &self.connection else { return None };
        // A connection with a lifted time limit may hold a lock and cannot be replaced.
        (!reader.connection.is_time_limit_lifted()).then(|| (sql.clone(), args.clone()))
    }

    /// Replaces a lost connection; returns the statement to retry.
    async fn replace_connection(
        &mut self,
        error: &StoreError,
        retry_statement: Option<(Sql, Args)>,
    ) -> Option<(Sql, Args)> {
        let retry_statement = retry_statement?;
        let Connection::Postgres(reader) = std::mem::replace(&mut self.connection, Connection::Lost) else {
            return None;
        };
        match reader.discard_if_lost(error) {
            Ok(readers) => self.connection = Connection::Postgres(readers.acquire().await.ok()?),
            Err(reader) => {
                self.connection = Connection::Postgres(reader);
                return None;
            }
        }
        Some(retry_statement)
    }

    /// Returns a stream of rows, for exports. Use it with [`Db::read_snapshot`](crate::Db::read_snapshot), which does
    /// not block writers.
    ///
    /// # Errors
    /// Errors of the database, here or within the stream.
    pub fn fetch_stream(
        &mut self,
        sql: impl Into<Sql>,
        args: Args,
    ) -> Result<BoxStream<'_, Result<Row, StoreError>>, StoreError> {
        self.reject_after_failure()?;
        let sql = sql.into();
        // Encoded before the connection is borrowed, so that an error can be recorded.
        match &self.connection {
            Connection::Lost => Err(self.failed(StoreError::Closed)),
            Connection::SqliteWriter(connection) => {
                let rows = args.into_values().and_then(|values| direct::fetch(connection, &sql.0, &values));
                let rows = rows.map_err(|error| self.failed(error))?;
                Ok(futures_util::stream::iter(rows.into_iter().map(Ok)).boxed())
            }
            Connection::Sqlite(_) => {
                let Connection::Sqlite(reader) = &mut self.connection else { return Err(StoreError::Closed) };
                reader.stream(sql, args)
            }
            Connection::Postgres(_) | Connection::PostgresTransaction(_) => {
                let arguments = codec::arguments(args).map_err(|error| self.failed(error))?;
                let Target::Postgres(connection) = self.connection.target() else { return Err(StoreError::Closed) };
                Ok(connection.stream(|connection| postgres_rows(connection, sql, arguments)))
            }
        }
    }

    /// Runs a statement without result rows.
    pub(crate) async fn run(&mut self, sql: Sql, args: Args) -> Result<u64, StoreError> {
        self.reject_after_failure()?;
        let result = match self.connection.target() {
            Target::Lost => Err(StoreError::Closed),
            Target::Writer(connection) => {
                args.into_values().and_then(|values| direct::execute(connection, &sql.0, &values))
            }
            Target::Sqlite(reader) => reader.execute(sql, args).await,
            Target::Postgres(connection) => match codec::arguments(args) {
                Ok(arguments) => connection
                    .run(|connection| connection.execute(sqlx::query_with(AssertSqlSafe(sql.0), arguments)))
                    .await
                    .map(|done| done.rows_affected()),
                Err(error) => Err(error),
            },
        };
        result.map_err(|error| self.failed(error))
    }

    /// Runs a script of several statements without parameters.
    pub(crate) async fn script(&mut self, text: &'static str) -> Result<(), StoreError> {
        match self.connection.target() {
            Target::Lost => return Err(StoreError::Closed),
            Target::Writer(connection) => connection.execute_batch(text)?,
            Target::Sqlite(reader) => reader.script(text)?,
            Target::Postgres(connection) => {
                connection.run(|connection| connection.execute(sqlx::raw_sql(text))).await.map(drop)?;
            }
        }
        Ok(())
    }

    /// Lifts the time limit: until the end of the transaction if there is one, else for the rest of the connection's
    /// life.
    pub(crate) async fn lift_time_limit(&mut self) -> Result<(), StoreError> {
        match self.connection.target() {
            Target::Postgres(connection) => connection.lift_time_limit().await,
            Target::Writer(_) | Target::Sqlite(_) | Target::Lost => Ok(()),
        }
    }

    fn reject_after_failure(&self) -> Result<(), StoreError> {
        if self.is_transaction && self.failure.is_some() { Err(StoreError::Aborted) } else { Ok(()) }
    }

    pub(crate) fn failed(&mut self, error: StoreError) -> StoreError {
        if self.is_transaction && self.failure.is_none() {
            self.failure = Some(error.clone());
        }
        error
    }
}

fn postgres_rows(
    connection: &mut PgConnection,
    sql: Sql,
    arguments: PgArguments,
) -> BoxStream<'_, Result<Row, StoreError>> {
    let mut columns = None;
    connection
        .fetch(sqlx::query_with(AssertSqlSafe(sql.0), arguments))
        .map_err(StoreError::from)
        .map(move |row| row.and_then(|row| codec::row(&row, columns.get_or_insert_with(|| codec::columns(&row)))))
        .boxed()
}
