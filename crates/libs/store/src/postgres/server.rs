//! Connection options and time limits for PostgreSQL.
//!
//! The server cancels a statement that exceeds its `statement_timeout`, and a transaction whose client is idle. A
//! client that receives nothing for slightly longer than that has an unresponsive peer in between and drops the
//! connection. Long operations (migrations, dumps) wait as long as the server accepts connections.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection};

use crate::StoreError;

const CONNECTION_IDLE: Duration = Duration::from_secs(60);
/// Idle time after which a connection is pinged before use.
pub(super) const PING_AFTER: Duration = Duration::from_secs(1);
const STATEMENT_TIMEOUT: &str = "statement_timeout";
const IDLE_TIMEOUT: &str = "idle_in_transaction_session_timeout";

/// Time limits for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Limit of a statement, enforced by the server.
    statement: Duration,
    /// Limit of cheap operations, such as connecting.
    pub(crate) quick: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::from_statement_limit(Duration::from_secs(30))
    }
}

impl Limits {
    const QUICK: Duration = Duration::from_secs(5);

    fn from_statement_limit(statement: Duration) -> Self {
        Self { statement, quick: Self::QUICK.min(statement) }
    }

    /// Limit for the response to a statement: the statement limit plus the time for the response to arrive.
    pub(crate) fn answer(self) -> Duration {
        self.statement.saturating_add(self.quick)
    }

    /// Period of silence after which the server is pinged.
    pub(super) fn ping_interval(self) -> Duration {
        self.statement
    }

    /// Limit of a ping, which leaves the same time for a reconnect.
    pub(super) fn ping(self) -> Duration {
        self.quick / 2
    }

    /// Reads the limits from the URL; `None` if it has none.
    fn from_url_options(options: &PgConnectOptions) -> Result<Option<Self>, StoreError> {
        let Some(value) = option(options, STATEMENT_TIMEOUT) else { return Ok(None) };
        let statement = duration(value).filter(|limit| !limit.is_zero()).ok_or_else(|| StoreError::InvalidUrl {
            reason: format!("`{STATEMENT_TIMEOUT}` must be a duration greater than 0, such as 30s or 2min"),
        })?;
        Ok(Some(Self::from_statement_limit(statement)))
    }
}

/// Returns a setting from the options sent at the start of a connection. The last one wins.
fn option<'o>(options: &'o PgConnectOptions, name: &str) -> Option<&'o str> {
    let words = options.get_options()?.split_whitespace();
    let settings = words.filter_map(|word| word.trim_start_matches("-c").trim_start_matches("--").split_once('='));
    settings.filter(|(key, _)| *key == name).map(|(_, value)| value).next_back()
}

/// Parses a PostgreSQL duration; milliseconds if it has no unit.
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
    // The server stores milliseconds in 31 bits.
    number.checked_mul(milliseconds).filter(|limit| i32::try_from(*limit).is_ok()).map(Duration::from_millis)
}

pub(crate) struct Server {
    pub(crate) options: PgConnectOptions,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Server {
    /// Omits the options, which contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn at(url: &Secret) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url.expose()).map_err(|_| StoreError::InvalidUrl {
            reason: "it must have the form postgres://user:password@host:5432/database".to_owned(),
        })?;
        let name = options.get_application_name().unwrap_or("agentd").to_owned();
        let limits = Limits::from_url_options(&options)?.unwrap_or_default();
        let milliseconds = |limit: Duration| format!("{}ms", limit.as_millis());
        // An abandoned transaction would keep its locks and block the outbox.
        let idle = option(&options, IDLE_TIMEOUT).map_or_else(|| milliseconds(limits.answer()), str::to_owned);
        let options = options
            .application_name(&name)
            .statement_cache_capacity(256)
            // The durability promised by `write` must not depend on the server configuration.
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

    /// Pings a connection that was idle.
    pub(super) async fn ping(connection: &mut PgConnection, limits: Limits) -> Result<(), sqlx::Error> {
        let timed_out = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
        tokio::time::timeout(limits.ping(), connection.ping()).await.map_err(timed_out)?
    }

    pub(crate) async fn connect(&self) -> Result<PgConnection, StoreError> {
        connect(&self.options, self.limits).await
    }

    /// Whether the server responds to new connections, even with an error.
    pub(super) async fn accepts_connections(&self) -> bool {
        let connecting = tokio::time::timeout(self.limits.quick, self.options.connect()).await;
        matches!(connecting, Ok(Ok(_) | Err(sqlx::Error::Database(_))))
    }
}

/// Opens a dedicated connection. Unlike a pool, it reports the cause of a failure and the address of the server.
pub(crate) async fn connect(options: &PgConnectOptions, limits: Limits) -> Result<PgConnection, StoreError> {
    let error = match tokio::time::timeout(limits.quick, options.connect()).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error,
        Err(_) => {
            let seconds = limits.quick.as_secs_f64();
            let reason = format!("PostgreSQL at {} did not respond within {seconds} seconds", address_of(options));
            return Err(StoreError::Unavailable { reason, source: None });
        }
    };
    let reason = match &error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => "cannot be reached",
        _ => "rejected the connection",
    };
    let reason = format!("PostgreSQL at {} {reason}", address_of(options));
    Err(StoreError::Unavailable { reason, source: Some(Arc::new(error)) })
}

/// Returns the server address without credentials.
fn address_of(options: &PgConnectOptions) -> String {
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
    fn statement_limit_defaults_unless_set_in_the_url() {
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
    fn limits_are_sent_to_the_server() {
        let server = at("postgres://u:p@h/d").unwrap();
        let sent = |name| option(&server.options, name).unwrap().to_owned();
        assert_eq!((sent(STATEMENT_TIMEOUT), sent(IDLE_TIMEOUT)), ("30000ms".to_owned(), "35000ms".to_owned()));
        assert_eq!(sent("synchronous_commit"), "on");
        let own = at("postgres://u:p@h/d?options[idle_in_transaction_session_timeout]=9s").unwrap();
        assert_eq!(option(&own.options, IDLE_TIMEOUT), Some("9s"));
        assert!(!format!("{:?}", at("postgres://u:hunter2@h/d").unwrap()).contains("hunter2"));
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
}
