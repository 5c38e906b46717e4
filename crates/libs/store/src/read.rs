//! Reading: one connection that rows are asked from.

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

/// Where statements go.
pub(crate) enum Connection {
    Sqlite(SqliteReader),
    SqliteWriter(rusqlite::Connection),
    Postgres(PostgresReader),
    PostgresTransaction(Pooled),
    /// It broke, and no other one could be had.
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

/// Reads rows. Store functions that only read take `&mut Read`; a `&mut Tx` is accepted there too.
pub struct Read {
    pub(crate) connection: Connection,
    pub(crate) shared: Arc<Shared>,
    /// Set inside a transaction by the first statement that fails: PostgreSQL then refuses all
    /// others, so SQLite must as well. Also what decides about a retry.
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

    /// As [`Db::is_exclusive`](crate::Db::is_exclusive).
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

    /// Every row. For what is bounded by a `LIMIT` or small by nature.
    ///
    /// # Errors
    /// What the database refuses; see [`StoreError`].
    pub async fn fetch_all(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        let spare = self.spare(&sql, &args);
        match self.try_fetch_all(sql, args).await {
            Err(error) => match self.renewed(&error, spare).await {
                Some((sql, args)) => self.try_fetch_all(sql, args).await,
                None => Err(error),
            },
            rows => rows,
        }
    }

    async fn try_fetch_all(&mut self, sql: Sql, args: Args) -> Result<Vec<Row>, StoreError> {
        self.refuse_after_failure()?;
        let rows = match self.connection.target() {
            Target::Lost => Err(StoreError::Closed),
            Target::Writer(connection) => {
                args.into_values().and_then(|values| direct::fetch(connection, &sql.0, &values))
            }
            Target::Sqlite(reader) => reader.fetch(sql, args).await,
            Target::Postgres(connection) => match codec::arguments(args) {
                Ok(arguments) => {
                    connection.ask(|connection| postgres_rows(connection, sql, arguments).try_collect()).await
                }
                Err(error) => Err(error),
            },
        };
        rows.map_err(|error| self.failed(error))
    }

    /// The one row that is there.
    ///
    /// # Errors
    /// `StoreError::NoRow` when there is none; else what the database refuses.
    pub async fn fetch_one(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Row, StoreError> {
        self.fetch_optional(sql, args).await?.ok_or(StoreError::NoRow)
    }

    /// The first row, if any. Further rows are read and thrown away, so that a `RETURNING`
    /// statement is always carried out whole.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn fetch_optional(&mut self, sql: impl Into<Sql>, args: Args) -> Result<Option<Row>, StoreError> {
        let sql = sql.into();
        let spare = self.spare(&sql, &args);
        match self.try_fetch_optional(sql, args).await {
            Err(error) => match self.renewed(&error, spare).await {
                Some((sql, args)) => self.try_fetch_optional(sql, args).await,
                None => Err(error),
            },
            row => row,
        }
    }

    async fn try_fetch_optional(&mut self, sql: Sql, args: Args) -> Result<Option<Row>, StoreError> {
        Ok(self.try_fetch_all(sql, args).await?.into_iter().next())
    }

    /// What a statement needs to be asked once more; only outside of transactions, where each stands
    /// alone and changes nothing.
    fn spare(&self, sql: &Sql, args: &Args) -> Option<(Sql, Args)> {
        let Connection::Postgres(reader) = &self.connection else { return None };
        // One that was set up for what takes long, and may hold a lock, cannot be replaced.
        (!reader.connection.takes_time()).then(|| (sql.clone(), args.clone()))
    }

    /// Takes another connection in the place of a lost one; answers what is to be asked again.
    async fn renewed(&mut self, error: &StoreError, spare: Option<(Sql, Args)>) -> Option<(Sql, Args)> {
        let spare = spare?;
        let Connection::Postgres(reader) = std::mem::replace(&mut self.connection, Connection::Lost) else {
            return None;
        };
        match reader.give_up(error) {
            Ok(readers) => self.connection = Connection::Postgres(readers.acquire().await.ok()?),
            Err(reader) => {
                self.connection = Connection::Postgres(reader);
                return None;
            }
        }
        Some(spare)
    }

    /// Rows as they come, for exports: nothing is collected. Take it from
    /// [`Db::read_snapshot`](crate::Db::read_snapshot), which holds back no writer.
    ///
    /// # Errors
    /// What the database refuses, here or within the stream.
    pub fn fetch_stream(
        &mut self,
        sql: impl Into<Sql>,
        args: Args,
    ) -> Result<BoxStream<'_, Result<Row, StoreError>>, StoreError> {
        self.refuse_after_failure()?;
        let sql = sql.into();
        // Encoded before the connection is borrowed: a refusal has to be remembered.
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

    /// Runs a statement that answers no rows.
    pub(crate) async fn run(&mut self, sql: Sql, args: Args) -> Result<u64, StoreError> {
        self.refuse_after_failure()?;
        let result = match self.connection.target() {
            Target::Lost => Err(StoreError::Closed),
            Target::Writer(connection) => {
                args.into_values().and_then(|values| direct::execute(connection, &sql.0, &values))
            }
            Target::Sqlite(reader) => reader.execute(sql, args).await,
            Target::Postgres(connection) => match codec::arguments(args) {
                Ok(arguments) => connection
                    .ask(|connection| connection.execute(sqlx::query_with(AssertSqlSafe(sql.0), arguments)))
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
                connection.ask(|connection| connection.execute(sqlx::raw_sql(text))).await.map(drop)?;
            }
        }
        Ok(())
    }

    /// What follows may take as long as it needs: in a transaction until that ends, else for good.
    pub(crate) async fn take_time(&mut self) -> Result<(), StoreError> {
        match self.connection.target() {
            Target::Postgres(connection) => connection.take_time().await,
            Target::Writer(_) | Target::Sqlite(_) | Target::Lost => Ok(()),
        }
    }

    fn refuse_after_failure(&self) -> Result<(), StoreError> {
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
