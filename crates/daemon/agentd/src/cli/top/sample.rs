//! Samples of the daemon's state.

use std::time::{Duration, Instant};

use agentd_base::{Clock, Timestamp};
use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::super::client::{LocalClient, accept, request};
use super::super::error::CliError;
use crate::config::Config;

/// Request timeout. A daemon that takes longer is shown as not responding.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Sample of all shown values; unknown values are null.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    /// Error if values are missing.
    pub(super) error: Option<String>,
    pub(super) is_reachable: bool,
    pub(super) turns_running: Option<u64>,
    /// Tokens per second since the previous sample.
    pub(super) tokens_per_second: Option<f64>,
    pub(super) health: Value,
    pub(super) performance: Value,
    pub(super) system: Value,
    pub(super) tokens: Value,
    pub(super) alerts: Value,
}

impl Sample {
    /// Returns the sample as a JSON line.
    pub(super) fn json(&self) -> Value {
        json!({
            "at": self.at, "is_reachable": self.is_reachable, "error": self.error,
            "turns_running": self.turns_running, "tokens_per_second": self.tokens_per_second,
            "health": self.health, "performance": self.performance, "system": self.system, "tokens": self.tokens,
            "alerts": self.alerts.get("alerts"),
        })
    }

    fn unreachable(at: Timestamp, error: &CliError) -> Self {
        Self {
            at,
            error: Some(error.to_string()),
            is_reachable: false,
            turns_running: None,
            tokens_per_second: None,
            health: Value::Null,
            performance: Value::Null,
            system: Value::Null,
            tokens: Value::Null,
            alerts: Value::Null,
        }
    }
}

/// Takes samples from the daemon.
pub(super) struct Sampler<'c> {
    config: &'c Config,
    clock: Clock,
    /// Time and value of the last reading of the total tokens.
    last: Option<(Instant, u64)>,
}

impl<'c> Sampler<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self { config, clock: Clock::system(), last: None }
    }

    /// Takes a sample, even if the daemon is unavailable.
    pub(super) async fn sample(&mut self) -> Sample {
        match self.require().await {
            Ok(sample) => sample,
            Err(error) => {
                self.last = None;
                Sample::unreachable(self.clock.now(), &error)
            }
        }
    }

    /// Takes a sample and fails if the daemon is unavailable.
    pub(super) async fn require(&mut self) -> Result<Sample, CliError> {
        let data_dir = &self.config.data_dir;
        let client = LocalClient::running(self.config).await?;
        let client = client.ok_or_else(|| CliError::NotRunning { data_dir: data_dir.clone() })?;
        let result = tokio::time::timeout(REQUEST_TIMEOUT, self.fetch(&client)).await;
        result.unwrap_or_else(|elapsed| {
            Err(CliError::Unresponsive { data_dir: data_dir.clone(), source: elapsed.into() })
        })
    }

    async fn fetch(&mut self, client: &LocalClient) -> Result<Sample, CliError> {
        let get = async |name: &str| client.json(Method::GET, &format!("/api/monitoring/{name}"), None).await;
        let (health, performance, system, tokens, alerts, turns_running) = tokio::join!(
            get("health"),
            get("performance"),
            get("system"),
            get("tokens"),
            get("alerts"),
            turns_running(client)
        );
        let mut error = None;
        let mut known = |answer: Result<Value, CliError>| match answer {
            Ok(value) => Ok(value),
            // The daemon is available but rejected the request.
            Err(refused @ CliError::Refused { .. }) => {
                error.get_or_insert_with(|| refused.to_string());
                Ok(Value::Null)
            }
            Err(other) => Err(other),
        };
        let (health, performance, system) = (known(health)?, known(performance)?, known(system)?);
        let (tokens, alerts) = (known(tokens)?, known(alerts)?);
        let tokens_per_second = self.rate(tokens.get("total_used").and_then(Value::as_u64));
        Ok(Sample {
            at: self.clock.now(),
            error,
            is_reachable: true,
            turns_running: turns_running?,
            tokens_per_second,
            health,
            performance,
            system,
            tokens,
            alerts,
        })
    }

    /// Returns the tokens per second since the last sample; `None` if the total decreased because a backup was
    /// restored.
    #[allow(clippy::cast_precision_loss, reason = "the rate may be approximate")]
    fn rate(&mut self, total: Option<u64>) -> Option<f64> {
        let now = Instant::now();
        let last = std::mem::replace(&mut self.last, total.map(|total| (now, total)));
        let ((then, before), total) = (last?, total?);
        let seconds = now.duration_since(then).as_secs_f64();
        let used = total.checked_sub(before)? as f64;
        (seconds > 0.0).then(|| used / seconds)
    }
}

/// Reads the number of running turns, which is only in the metrics.
async fn turns_running(client: &LocalClient) -> Result<Option<u64>, CliError> {
    let metrics_request = request(Method::GET, "/api/metrics/prometheus", Body::empty())?;
    let answer = accept(client.send(metrics_request, Some(REQUEST_TIMEOUT)).await?).await?;
    let bytes = answer.into_body().collect().await.map_err(CliError::broken)?.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().find_map(|line| line.strip_prefix("svc_turns_running ")?.parse().ok()))
}
