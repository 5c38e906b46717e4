//! How far this machine's clock and the database server's are apart.
//!
//! Replicas write the end of a lease by their own clock and compare others' leases with it, too. Clocks
//! that disagree by more than a lease lasts would let two replicas hold one thing at once.

use std::str::FromStr;
use std::time::Duration;

use agentd_base::Clock;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _};

use crate::db::DatabaseUrl;
use crate::{StoreError, postgres};

/// A server that does not answer within this time is away.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The fastest of these counts: what a slow answer says about the time is vague.
const QUESTIONS: usize = 3;
const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// By how many microseconds the server's clock is ahead of `clock`; negative when it is behind.
/// `None` on SQLite, which one machine alone uses.
///
/// # Errors
/// The address is not one, or the server cannot be asked.
pub async fn server_clock_ahead(url: &DatabaseUrl, clock: &Clock) -> Result<Option<i64>, StoreError> {
    let DatabaseUrl::Postgres(address) = url else { return Ok(None) };
    let options = PgConnectOptions::from_str(address.expose()).map_err(|_| StoreError::InvalidUrl {
        reason: "it must look like postgres://user:password@host:5432/database".to_owned(),
    })?;
    let asking = ask(options.disable_statement_logging(), clock);
    tokio::time::timeout(TIME_LIMIT, asking).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable { reason: "the server does not answer".to_owned(), source: None })
    })
}

async fn ask(options: PgConnectOptions, clock: &Clock) -> Result<Option<i64>, StoreError> {
    let mut connection = postgres::connect(&options, postgres::Limits::default()).await?;
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..QUESTIONS {
        let before = clock.now().as_micros();
        let server: i64 = sqlx::query_scalar(NOW).fetch_one(&mut connection).await?;
        let took = clock.now().as_micros().saturating_sub(before);
        let ahead = server.saturating_sub(before.saturating_add(took / 2));
        if best.is_none_or(|(fastest, _)| took < fastest) {
            best = Some((took, ahead));
        }
    }
    connection.close().await?;
    Ok(best.map(|(_, ahead)| ahead))
}
