//! Offset between this machine's clock and the database server's.
//!
//! Replicas write and compare lease expiry times with their own clocks. If clocks differ by more than a lease lasts,
//! two replicas could hold the same lease.

use std::str::FromStr;
use std::time::Duration;

use agentd_base::Clock;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _};

use crate::db::DatabaseUrl;
use crate::{StoreError, postgres};

/// Time limit after which the server counts as unavailable.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Number of measurements. The fastest one counts, because a slow response makes the result imprecise.
const SAMPLES: usize = 3;
const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// Returns by how many microseconds the server's clock is ahead of `clock`; negative if it is behind. `None` on SQLite,
/// which has no server.
///
/// # Errors
/// The URL is invalid or the server cannot be queried.
pub async fn server_clock_offset(url: &DatabaseUrl, clock: &Clock) -> Result<Option<i64>, StoreError> {
    let DatabaseUrl::Postgres(address) = url else { return Ok(None) };
    let options = PgConnectOptions::from_str(address.expose()).map_err(|_| StoreError::InvalidUrl {
        reason: "it must have the form postgres://user:password@host:5432/database".to_owned(),
    })?;
    let measuring = measure(options.disable_statement_logging(), clock);
    tokio::time::timeout(TIME_LIMIT, measuring).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable { reason: "the server does not respond".to_owned(), source: None })
    })
}

async fn measure(options: PgConnectOptions, clock: &Clock) -> Result<Option<i64>, StoreError> {
    let mut connection = postgres::connect(&options, postgres::Limits::default()).await?;
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..SAMPLES {
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
