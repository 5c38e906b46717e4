//! A connection of a pool whose answers are not waited for without end.

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

/// It goes back to its pool when it is dropped, unless it hangs: its transaction is taken back first.
pub(crate) struct Pooled {
    /// There until it is dropped.
    connection: Option<Lent>,
    server: Arc<Server>,
    is_in_transaction: bool,
    /// It did not answer, so nobody knows what it would answer next.
    hangs: bool,
    time: Time,
}

/// How much of it statements may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Limited,
    UntilEndOfTransaction,
    /// The connection is not lent to others again.
    Unlimited,
}

/// Closed with this value, at once and without a word, unless it was given back.
struct Lent(PoolConnection<Postgres>);

impl Drop for Lent {
    fn drop(&mut self) {
        // Never polled: what it holds goes with it.
        drop(self.0.return_to_pool());
    }
}

impl Pooled {
    pub(crate) async fn acquire(pool: &PgPool, server: &Arc<Server>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: Some(Lent(pool.acquire().await?)),
            server: Arc::clone(server),
            is_in_transaction: false,
            hangs: false,
            time: Time::Limited,
        })
    }

    /// Begins a transaction.
    pub(crate) async fn begin(mut self, sql: &'static str) -> Result<Self, StoreError> {
        // Before it is known: whoever stops waiting leaves one behind.
        self.is_in_transaction = true;
        let limit = self.server.limits.quick;
        self.ask_within(limit, |connection| connection.execute(raw_sql(sql))).await?;
        Ok(self)
    }

    /// After no answer, or a lost connection, nobody knows what came of it.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.is_in_transaction = false;
        self.ask(|connection| connection.execute(raw_sql("COMMIT"))).await.map(drop)
    }

    /// The server takes back by itself what it hears no more of.
    pub(crate) async fn rollback(mut self) {
        self.is_in_transaction = false;
        drop(self.ask(|connection| connection.execute(raw_sql("ROLLBACK"))).await);
    }

    /// What `ask` makes of the connection, if it answers in time.
    pub(crate) async fn ask<'c, T, E, F>(
        &'c mut self,
        ask: impl FnOnce(&'c mut PgConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, E>>,
        StoreError: From<E>,
    {
        let limit = self.server.limits.answer();
        self.ask_within(limit, ask).await
    }

    async fn ask_within<'c, T, E, F>(
        &'c mut self,
        limit: Duration,
        ask: impl FnOnce(&'c mut PgConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, E>>,
        StoreError: From<E>,
    {
        let Self { connection: Some(Lent(connection)), server, hangs: hangs @ false, time, .. } = self else {
            return Err(StoreError::unanswered());
        };
        match wait(server, *time, limit, ask(connection)).await {
            Some(answer) => Ok(answer?),
            None => {
                *hangs = true;
                Err(StoreError::unanswered())
            }
        }
    }

    /// Rows as they come, each in time.
    pub(crate) fn stream<'c>(
        &'c mut self,
        ask: impl FnOnce(&'c mut PgConnection) -> BoxStream<'c, Result<Row, StoreError>>,
    ) -> BoxStream<'c, Result<Row, StoreError>> {
        let Self { connection: Some(Lent(connection)), server, hangs: hangs @ false, time, .. } = self else {
            return stream::iter([Err(StoreError::unanswered())]).boxed();
        };
        let (server, time, limit) = (&*server, *time, server.limits.answer());
        stream::unfold(Some((ask(connection), hangs)), move |left| async move {
            let (mut rows, hangs) = left?;
            match wait(server, time, limit, rows.next()).await {
                Some(row) => row.map(|row| (row, Some((rows, hangs)))),
                None => {
                    *hangs = true;
                    Some((Err(StoreError::unanswered()), None))
                }
            }
        })
        .boxed()
    }

    /// What follows may take as long as it needs: in a transaction until that ends, else for good.
    pub(crate) async fn take_time(&mut self) -> Result<(), StoreError> {
        if self.time != Time::Limited {
            return Ok(());
        }
        let (time, sql) = match self.is_in_transaction {
            true => (
                Time::UntilEndOfTransaction,
                "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
            ),
            false => (Time::Unlimited, "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"),
        };
        // First, lest others get it.
        self.time = time;
        self.ask(|connection| connection.execute(raw_sql(sql))).await.map(drop)
    }

    pub(crate) fn takes_time(&self) -> bool {
        self.time != Time::Limited
    }
}

/// `None`: no answer, and none is to be expected.
async fn wait<T>(server: &Server, time: Time, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = pin!(answer);
    loop {
        if let Ok(answer) = tokio::time::timeout(limit, answer.as_mut()).await {
            return Some(answer);
        }
        if time == Time::Limited || !server.lets_in().await {
            return None;
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.hangs {
            return;
        }
        let (limit, is_in_transaction) = (self.server.limits.answer(), self.is_in_transaction);
        let is_kept = self.time != Time::Unlimited;
        runtime.spawn(async move {
            let Lent(lent) = &mut connection;
            let going_back = async {
                if is_in_transaction {
                    drop(lent.execute(raw_sql("ROLLBACK")).await);
                }
                if is_kept {
                    lent.return_to_pool().await;
                }
            };
            drop(tokio::time::timeout(limit, going_back).await);
        });
    }
}
