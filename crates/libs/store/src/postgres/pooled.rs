//! Pooled connection with time limits for responses.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use sqlx::pool::PoolConnection;
use sqlx::{Executor as _, PgConnection, PgPool, Postgres, raw_sql};

use super::server::Server;
use crate::StoreError;
use crate::row::Row;

/// Returns to its pool when dropped, after a rollback of its transaction, unless it is unresponsive.
pub(crate) struct Pooled {
    /// Present until the drop.
    connection: Option<CheckedOut>,
    server: Arc<Server>,
    is_in_transaction: bool,
    /// A response is missing, so the protocol state is unknown.
    is_unresponsive: bool,
    time: StatementLimit,
}

/// Time limit of statements on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatementLimit {
    Limited,
    UntilEndOfTransaction,
    /// The connection is not returned to the pool.
    Unlimited,
}

/// Closes the connection on drop, immediately and without a termination message, unless it was returned.
struct CheckedOut(PoolConnection<Postgres>);

impl Drop for CheckedOut {
    fn drop(&mut self) {
        // The future is never polled; dropping it closes the connection.
        drop(self.0.return_to_pool());
    }
}

impl Pooled {
    pub(crate) async fn acquire(pool: &PgPool, server: &Arc<Server>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: Some(CheckedOut(pool.acquire().await?)),
            server: Arc::clone(server),
            is_in_transaction: false,
            is_unresponsive: false,
            time: StatementLimit::Limited,
        })
    }

    /// Begins a transaction.
    pub(crate) async fn begin(mut self, sql: &'static str) -> Result<Self, StoreError> {
        // Set before the outcome is known: a cancelled caller may leave a transaction behind.
        self.is_in_transaction = true;
        let limit = self.server.limits.quick;
        self.run_within(limit, |connection| connection.execute(raw_sql(sql))).await?;
        Ok(self)
    }

    /// Commits. Without a response, or after a lost connection, the outcome is unknown.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.is_in_transaction = false;
        self.run(|connection| connection.execute(raw_sql("COMMIT"))).await.map(drop)
    }

    /// Rolls back. The server rolls back by itself when the connection is lost.
    pub(crate) async fn rollback(mut self) {
        self.is_in_transaction = false;
        drop(self.run(|connection| connection.execute(raw_sql("ROLLBACK"))).await);
    }

    /// Runs `run` on the connection within the time limit.
    pub(crate) async fn run<'c, T, E, F>(
        &'c mut self,
        run: impl FnOnce(&'c mut PgConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, E>>,
        StoreError: From<E>,
    {
        let limit = self.server.limits.answer();
        self.run_within(limit, run).await
    }

    async fn run_within<'c, T, E, F>(
        &'c mut self,
        limit: Duration,
        run: impl FnOnce(&'c mut PgConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, E>>,
        StoreError: From<E>,
    {
        let Self {
            connection: Some(CheckedOut(connection)),
            server,
            is_unresponsive: is_unresponsive @ false,
            time,
            ..
        } = self
        else {
            return Err(StoreError::timed_out());
        };
        match wait_within(server, *time, limit, run(connection)).await {
            Some(answer) => Ok(answer?),
            None => {
                *is_unresponsive = true;
                Err(StoreError::timed_out())
            }
        }
    }

    /// Returns a stream of rows, each within the time limit.
    pub(crate) fn stream<'c>(
        &'c mut self,
        run: impl FnOnce(&'c mut PgConnection) -> BoxStream<'c, Result<Row, StoreError>>,
    ) -> BoxStream<'c, Result<Row, StoreError>> {
        let Self {
            connection: Some(CheckedOut(connection)),
            server,
            is_unresponsive: is_unresponsive @ false,
            time,
            ..
        } = self
        else {
            return stream::iter([Err(StoreError::timed_out())]).boxed();
        };
        let (server, time, limit) = (&*server, *time, server.limits.answer());
        stream::unfold(Some((run(connection), is_unresponsive)), move |left| async move {
            let (mut rows, is_unresponsive) = left?;
            match wait_within(server, time, limit, rows.next()).await {
                Some(row) => row.map(|row| (row, Some((rows, is_unresponsive)))),
                None => {
                    *is_unresponsive = true;
                    Some((Err(StoreError::timed_out()), None))
                }
            }
        })
        .boxed()
    }

    /// Lifts the time limit: until the end of the transaction if there is one, else for the rest of the connection's
    /// life.
    pub(crate) async fn lift_time_limit(&mut self) -> Result<(), StoreError> {
        if self.time != StatementLimit::Limited {
            return Ok(());
        }
        let (time, sql) = match self.is_in_transaction {
            true => (
                StatementLimit::UntilEndOfTransaction,
                "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
            ),
            false => {
                (StatementLimit::Unlimited, "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            }
        };
        // Set first, so that the connection cannot be returned with the limit lifted.
        self.time = time;
        self.run(|connection| connection.execute(raw_sql(sql))).await.map(drop)
    }

    pub(crate) fn is_time_limit_lifted(&self) -> bool {
        self.time != StatementLimit::Limited
    }
}

/// Returns `None` if no response arrived and none can be expected.
async fn wait_within<T>(
    server: &Server,
    time: StatementLimit,
    limit: Duration,
    answer: impl Future<Output = T>,
) -> Option<T> {
    let mut answer = pin!(answer);
    loop {
        if let Ok(answer) = tokio::time::timeout(limit, answer.as_mut()).await {
            return Some(answer);
        }
        if time == StatementLimit::Limited || !server.accepts_connections().await {
            return None;
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_unresponsive {
            return;
        }
        let (limit, is_in_transaction) = (self.server.limits.answer(), self.is_in_transaction);
        let is_reusable = self.time != StatementLimit::Unlimited;
        runtime.spawn(async move {
            let CheckedOut(checked_out) = &mut connection;
            let returning = async {
                if is_in_transaction {
                    drop(checked_out.execute(raw_sql("ROLLBACK")).await);
                }
                if is_reusable {
                    checked_out.return_to_pool().await;
                }
            };
            drop(tokio::time::timeout(limit, returning).await);
        });
    }
}
