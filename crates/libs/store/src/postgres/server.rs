//! Where PostgreSQL is, and how long it is waited for.
//!
//! The server ends a statement that takes longer than its `statement_timeout`, and a transaction whose client went
//! quiet. Whoever hears nothing for a little longer than that has something before it that hangs, and gives the
//! connection up. What takes long by nature (migrations, dumps) is waited for as long as the server lets others in.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection};

use crate::StoreError;

const CONNECTION_IDLE: Duration = Duration::from_secs(60);
/// A connection that was idle for less is taken to be alive.
pub(super) const PING_AFTER: Duration = Duration::from_secs(1);
const STATEMENT_TIMEOUT: &str = "statement_timeout";
const IDLE_TIMEOUT: &str = "idle_in_transaction_session_timeout";

/// How long something may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// A statement, as the server is told.
    statement: Duration,
    /// What costs the server nothing, such as letting somebody in.
    pub(crate) quick: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_statements(Duration::from_secs(30))
    }
}

impl Limits {
    const QUICK: Duration = Duration::from_secs(5);

    fn of_statements(statement: Duration) -> Self {
        Self { statement, quick: Self::QUICK.min(statement) }
    }

    /// The answer to a statement: longer than the server works on it, and what it says of that takes to arrive.
    pub(crate) fn answer(self) -> Duration {
        self.statement.saturating_add(self.quick)
    }

    /// For as long nobody need have said anything.
    pub(super) fn silence(self) -> Duration {
        self.statement
    }

    /// A sign of life, with as much left for connecting anew.
    pub(super) fn ping(self) -> Duration {
        self.quick / 2
    }

    /// What the address says; `None` when it says nothing.
    fn in_address(options: &PgConnectOptions) -> Result<Option<Self>, StoreError> {
        let Some(value) = option(options, STATEMENT_TIMEOUT) else { return Ok(None) };
        let statement = duration(value).filter(|limit| !limit.is_zero()).ok_or_else(|| StoreError::InvalidUrl {
            reason: format!("`{STATEMENT_TIMEOUT}` must be a time of more than 0, such as 30s or 2min"),
        })?;
        Ok(Some(Self::of_statements(statement)))
    }
}

/// A setting among those that the server is handed at the beginning of a connection. The last one counts.
fn option<'o>(options: &'o PgConnectOptions, name: &str) -> Option<&'o str> {
    let words = options.get_options()?.split_whitespace();
    let settings = words.filter_map(|word| word.trim_start_matches("-c").trim_start_matches("--").split_once('='));
    settings.filter(|(key, _)| *key == name).map(|(_, value)| value).next_back()
}

/// As PostgreSQL writes it; milliseconds without a unit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // The server counts them in 31 bits.
    number.checked_mul(milliseconds).filter(|limit| i32::try_from(*limit).is_ok()).map(Duration::from_millis)
}

pub(crate) struct Server {
    pub(crate) options: PgConnectOptions,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Server {
    /// The options hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn at(url: &Secret) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url.expose()).map_err(|_| StoreError::InvalidUrl {
            reason: "it must look like postgres://user:password@host:5432/database".to_owned(),
        })?;
        let name = options.get_application_name().unwrap_or("agentd").to_owned();
        let limits = Limits::in_address(&options)?.unwrap_or_default();
        let milliseconds = |limit: Duration| format!("{}ms", limit.as_millis());
        // A transaction that nobody goes on with holds its rows, and the outbox back.
        let idle = option(&options, IDLE_TIMEOUT).map_or_else(|| milliseconds(limits.answer()), str::to_owned);
        let options = options
            .application_name(&name)
            .statement_cache_capacity(256)
            // What `write` promises must not depend on the server's setting.
            .options([("synchronous_commit", "on".to_owned())])
            .options([(STATEMENT_TIMEOUT, milliseconds(limits.statement)), (IDLE_TIMEOUT, idle)])
            .disable_statement_logging();
        Ok(Self { options, limits })
    }

    pub(super) fn pool_options(&self, connections: u32) -> PgPoolOptions {
        PgPoolOptions::new()
            .max_connections(connections)
            .min_connections(0)
            .idle_timeout(CONNECTION_IDLE)
            .acquire_timeout(self.limits.quick)
            .test_before_acquire(false)
    }

    /// Asks a connection that was idle whether it lives.
    pub(super) async fn ping(connection: &mut PgConnection, limits: Limits) -> Result<(), sqlx::Error> {
        let hangs = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
        tokio::time::timeout(limits.ping(), connection.ping()).await.map_err(hangs)?
    }

    pub(crate) async fn connect(&self) -> Result<PgConnection, StoreError> {
        connect(&self.options, self.limits).await
    }

    /// Whether it answers those who come now, be it with a refusal.
    pub(super) async fn lets_in(&self) -> bool {
        let connecting = tokio::time::timeout(self.limits.quick, self.options.connect()).await;
        matches!(connecting, Ok(Ok(_) | Err(sqlx::Error::Database(_))))
    }
}

/// A connection of its own, or why there is none. A pool would keep that to itself, and nobody would say
/// where the server was looked for.
pub(crate) async fn connect(options: &PgConnectOptions, limits: Limits) -> Result<PgConnection, StoreError> {
    let error = match tokio::time::timeout(limits.quick, options.connect()).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error,
        Err(_) => {
            let seconds = limits.quick.as_secs_f64();
            let reason = format!("PostgreSQL at {} did not answer within {seconds} seconds", place(options));
            return Err(StoreError::Unavailable { reason, source: None });
        }
    };
    let reason = match &error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => "cannot be reached",
        _ => "refuses the connection",
    };
    let reason = format!("PostgreSQL at {} {reason}", place(options));
    Err(StoreError::Unavailable { reason, source: Some(Arc::new(error)) })
}

/// Where the server is, without who asks.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Result<Server, StoreError> {
        Server::at(&Secret::new(address.to_owned()))
    }

    #[test]
    fn statements_are_limited_by_the_address_else_by_default() {
        let limits = |address: &str| at(address).unwrap().limits;
        let usual = limits("postgres://u:p@h/d");
        assert_eq!((usual.statement, usual.quick, usual.answer()), (secs(30), secs(5), secs(35)));
        let longer = limits("postgres://u:p@h/d?options[search_path]=s&options[statement_timeout]=2min");
        assert_eq!((longer.statement, longer.answer()), (secs(120), secs(125)));
        let shorter = limits("postgres://u:p@h/d?options=-c%20statement_timeout=1500");
        assert_eq!((shorter.statement, shorter.quick), (Duration::from_millis(1_500), Duration::from_millis(1_500)));
        for wrong in ["0", "soon", "5y", "-1", "90d"] {
            let refused = at(&format!("postgres://u:hunter2@h/d?options[statement_timeout]={wrong}")).unwrap_err();
            assert!(matches!(&refused, StoreError::InvalidUrl { .. }), "{wrong}: {refused:?}");
            assert!(!format!("{refused} {refused:?}").contains("hunter2"));
        }
    }

    #[test]
    fn the_server_is_told_the_limits() {
        let server = at("postgres://u:p@h/d").unwrap();
        let told = |name| option(&server.options, name).unwrap().to_owned();
        assert_eq!((told(STATEMENT_TIMEOUT), told(IDLE_TIMEOUT)), ("30000ms".to_owned(), "35000ms".to_owned()));
        assert_eq!(told("synchronous_commit"), "on");
        let own = at("postgres://u:p@h/d?options[idle_in_transaction_session_timeout]=9s").unwrap();
        assert_eq!(option(&own.options, IDLE_TIMEOUT), Some("9s"));
        assert!(!format!("{:?}", at("postgres://u:hunter2@h/d").unwrap()).contains("hunter2"));
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
}
