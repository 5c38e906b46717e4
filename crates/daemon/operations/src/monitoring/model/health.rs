//! Health of components.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{ComponentHealth, HealthStatus, Recorded};
use serde::Serialize;
use utoipa::ToSchema;

/// Minimum number of requests for a meaningful failure rate.
const MIN_REQUESTS: u64 = 20;
/// Shares of requests that fail with a 5xx status.
const DEGRADED_ERROR_RATE: f64 = 0.05;
const UNHEALTHY_ERROR_RATE: f64 = 0.5;
/// Number of consecutive failures after which a worker counts as failing.
const FAILING_THRESHOLD: u64 = 3;

/// Health of a component.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComponentView {
    /// Id: `api`, `db`, `workers`, `memory` or `ai`.
    #[schema(example = "db")]
    pub id: &'static str,
    /// Display name, such as `Workers`.
    pub name: &'static str,
    /// Health at the last check.
    pub status: HealthStatus,
    /// Last measured latency in milliseconds. For `api` and `ai` the 95th percentile of requests or model calls of the
    /// last five minutes, otherwise the duration of the check. 0 before the first measurement.
    pub latency: f64,
    /// Problem and its remedy, or the reason why the status is `unknown`; omitted if healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    pub message: Option<String>,
    /// Time of the check that produced this result.
    pub last_check: Timestamp,
}

/// Response of `GET /api/monitoring/health`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComponentsView {
    /// Worst status of the components; `unknown` is ignored.
    pub overall: HealthStatus,
    /// Time since the daemon started, in seconds.
    pub uptime: u64,
    /// Version of the daemon.
    pub version: &'static str,
    /// Components in a fixed order.
    pub components: Vec<ComponentView>,
    /// Time when the components were checked, at most one second ago.
    pub last_check: Timestamp,
}

/// Returns the worst status; `Unknown` is ignored.
pub(crate) fn worst(statuses: impl IntoIterator<Item = HealthStatus>) -> HealthStatus {
    let rank = |status: &HealthStatus| match status {
        HealthStatus::Unknown => 0,
        HealthStatus::Healthy => 1,
        HealthStatus::Degraded => 2,
        HealthStatus::Unhealthy => 3,
    };
    statuses.into_iter().max_by_key(rank).unwrap_or(HealthStatus::Unknown)
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
pub(crate) fn error_rate(recorded: &Recorded) -> Option<f64> {
    let count = recorded.latency.count();
    (count > 0).then(|| recorded.errors.min(count) as f64 / count as f64)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Rates the API by its recent responses.
pub(crate) fn rate_requests(recorded: &Recorded) -> ComponentHealth {
    let rate = error_rate(recorded).filter(|_| recorded.latency.count() >= MIN_REQUESTS).unwrap_or(0.0);
    let failed = || {
        let share = percent(rate);
        format!("{share} of the requests of the last five minutes failed with an internal error; see the daemon's log")
    };
    if rate >= UNHEALTHY_ERROR_RATE {
        ComponentHealth::unhealthy(failed())
    } else if rate >= DEGRADED_ERROR_RATE {
        ComponentHealth::degraded(failed())
    } else {
        ComponentHealth::healthy()
    }
}

/// Rates the recent model calls; returns `None` without any.
pub(crate) fn rate_calls(calls: &[(String, Recorded)]) -> Option<ComponentHealth> {
    let mut all = Recorded::default();
    calls.iter().for_each(|(_, recorded)| all.merge(recorded));
    let rate = error_rate(&all)?;
    if all.errors == 0 {
        return Some(ComponentHealth::healthy());
    }
    let failing = calls.iter().filter(|(_, recorded)| recorded.errors > 0);
    let failing: Vec<String> =
        failing.map(|(provider, recorded)| format!("{provider} ({} failed)", recorded.errors)).collect();
    let share = percent(rate);
    let message = format!(
        "{share} of the model calls of the last five minutes failed: {}; see GET /api/providers for the reasons",
        failing.join(", ")
    );
    Some(if all.errors >= all.latency.count() {
        ComponentHealth::unhealthy(message)
    } else {
        ComponentHealth::degraded(message)
    })
}

/// State of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerState {
    pub(crate) name: &'static str,
    pub(crate) is_late: bool,
    pub(crate) failures_in_a_row: u64,
}

/// Reports workers that are late or keep failing.
pub(crate) fn rate_workers(workers: &[WorkerState]) -> ComponentHealth {
    let late = workers.iter().filter(|worker| worker.is_late).map(|worker| format!("{} is late", worker.name));
    let failing = workers.iter().filter(|worker| worker.failures_in_a_row >= FAILING_THRESHOLD);
    let failing = failing.map(|worker| format!("{} failed {} times in a row", worker.name, worker.failures_in_a_row));
    let wrong: Vec<String> = late.chain(failing).collect();
    if wrong.is_empty() {
        return ComponentHealth::healthy();
    }
    ComponentHealth::degraded(format!("{}; see the daemon's log", wrong.join(", ")))
}

/// Returns the duration in milliseconds, rounded to microseconds.
pub(crate) fn millis(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use agentd_core::runtime::{Recorder, Series};

    use super::*;

    fn recorded(count: u64, errors: u64) -> Recorded {
        let recorder = Recorder::default();
        for number in 0..count {
            recorder.record(Series::Turn, "", Duration::from_millis(5), number < errors);
        }
        recorder.drain().pop().map(|(_, _, recorded)| recorded).unwrap_or_default()
    }

    #[test]
    fn worst_status_ignores_unknown() {
        use HealthStatus::{Degraded, Healthy, Unhealthy, Unknown};
        assert_eq!(worst([Healthy, Unknown]), Healthy);
        assert_eq!(worst([Healthy, Degraded, Unknown]), Degraded);
        assert_eq!(worst([Unhealthy, Degraded, Healthy]), Unhealthy);
        assert_eq!(worst([Unknown]), Unknown);
    }

    #[test]
    fn calls_and_requests_are_rated_by_failure_rate() {
        let status =
            |count, errors| rate_calls(&[("openai".to_owned(), recorded(count, errors))]).map(|health| health.status);
        assert_eq!(status(0, 0), None);
        assert_eq!(status(3, 0), Some(HealthStatus::Healthy));
        assert_eq!(status(3, 1), Some(HealthStatus::Degraded));
        assert_eq!(status(3, 3), Some(HealthStatus::Unhealthy));
        assert_eq!(rate_requests(&recorded(19, 19)).status, HealthStatus::Healthy, "too few requests for a rating");
        assert_eq!(rate_requests(&recorded(100, 4)).status, HealthStatus::Healthy);
        assert_eq!(rate_requests(&recorded(100, 5)).status, HealthStatus::Degraded);
        assert_eq!(rate_requests(&recorded(100, 50)).status, HealthStatus::Unhealthy);
    }

    #[test]
    fn late_and_failing_workers_are_named() {
        let worker = |name, is_late, failures_in_a_row| WorkerState { name, is_late, failures_in_a_row };
        assert_eq!(rate_workers(&[worker("a", false, 2)]), ComponentHealth::healthy());
        let health = rate_workers(&[worker("a", true, 0), worker("b", false, 3), worker("c", false, 0)]);
        assert_eq!(health.status, HealthStatus::Degraded);
        let message = health.message.unwrap();
        assert!(message.contains("a is late") && message.contains("b failed 3 times in a row"), "{message}");
        assert!(!message.contains("c "), "{message}");
    }
}
