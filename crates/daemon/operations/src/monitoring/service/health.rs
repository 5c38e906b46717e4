//! Health of components.

use std::time::Duration;

use agentd_core::runtime::{ComponentHealth, HealthCheck, HealthStatus, Recorded, Series, is_fresh};
use agentd_engine::providers::{DefaultCheck, ProviderError};
use agentd_store::StoreError;
use tokio::time::Instant;

use super::performance::{WINDOW, merge_by_label};
use super::{MeasuredHealth, Monitoring};
use crate::monitoring::error::{MonitoringError, NotReady};
use crate::monitoring::model::{
    ComponentView, ComponentsView, VERSION, WorkerState, millis, rate_calls, rate_requests, rate_workers, worst,
};

/// Maximum duration of a check; a slower component counts as unavailable.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum duration of a provider's check, which includes the network.
const PROVIDER_CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum latency that is reported; 0 means that nothing was measured.
const MIN_LATENCY_MS: f64 = 0.001;

impl Monitoring {
    /// Returns all components, checked at most one second ago.
    pub async fn components(&self) -> ComponentsView {
        let mut last = self.components.last.lock().await;
        if let Some(found) = &*last
            && is_fresh(found.last_check, self.context.clock.now())
        {
            return found.clone();
        }
        let found = self.collect_components().await;
        last.insert(found).clone()
    }

    /// Returns one component.
    ///
    /// # Errors
    /// `UnknownComponent`.
    pub async fn component(&self, id: &str) -> Result<ComponentView, MonitoringError> {
        let components = self.components().await.components;
        let known = components.iter().map(|component| component.id).collect::<Vec<_>>().join(", ");
        let found = components.into_iter().find(|component| component.id == id);
        found.ok_or_else(|| MonitoringError::UnknownComponent { id: id.chars().take(64).collect(), known })
    }

    /// Checks all components now, and the default provider with a call that costs nothing.
    ///
    /// # Errors
    /// The database is unavailable while the default provider is resolved.
    pub async fn check_components(&self) -> Result<ComponentsView, MonitoringError> {
        let started = Instant::now();
        let checked = tokio::time::timeout(PROVIDER_CHECK_TIMEOUT, self.sources.providers.check_default()).await;
        let elapsed = millis(started.elapsed());
        let found = match checked {
            Ok(Ok(check)) => rate_default_check(check, elapsed),
            Ok(Err(error)) if is_unavailable(&error) => (ComponentHealth::unknown(DATABASE_UNAVAILABLE), None),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let message = "The default provider did not respond within ten seconds; see GET /api/providers";
                (ComponentHealth::unhealthy(message), Some(elapsed))
            }
        };
        *self.components.cached_health.lock() = Some((self.context.clock.now(), found));
        let mut last = self.components.last.lock().await;
        let found = self.collect_components().await;
        Ok(last.insert(found).clone())
    }

    async fn collect_components(&self) -> ComponentsView {
        let recent = self.sources.rollups.latencies(self.window().0, &[Series::Requests, Series::ModelCall]).await;
        let mut components = vec![
            self.view("api", "API", self.api(&recent)),
            self.run_check(&*self.components.database).await,
            self.view("workers", "Workers", self.workers()),
        ];
        for check in &self.components.checks {
            components.push(self.run_check(&**check).await);
        }
        components.push(self.view("ai", "AI providers", self.ai(&recent)));
        ComponentsView {
            overall: worst(components.iter().map(|component| component.status)),
            uptime: self.readiness.uptime().as_secs(),
            version: VERSION,
            components,
            last_check: self.context.clock.now(),
        }
    }

    fn view(&self, id: &'static str, name: &'static str, (health, latency): MeasuredHealth) -> ComponentView {
        let mut latencies = self.components.latencies.lock();
        if let Some(latency) = latency {
            latencies.insert(id, latency.max(MIN_LATENCY_MS));
        }
        let latency = latencies.get(id).copied();
        let health = match latency {
            None if health.status == HealthStatus::Healthy => {
                ComponentHealth::unknown(format!("The latency of {name} has not been measured yet"))
            }
            _ => health,
        };
        let (latency, last_check) = (latency.unwrap_or_default(), self.context.clock.now());
        ComponentView { id, name, status: health.status, latency, message: health.message, last_check }
    }

    async fn run_check(&self, check: &dyn HealthCheck) -> ComponentView {
        let started = Instant::now();
        let health = tokio::time::timeout(CHECK_TIMEOUT, check.check()).await.unwrap_or_else(|_| {
            ComponentHealth::unhealthy(format!("{} did not respond within two seconds", check.name()))
        });
        self.view(check.id(), check.name(), (health, Some(millis(started.elapsed()))))
    }

    fn api(&self, recent: &RecentLatencies) -> MeasuredHealth {
        if let Some(not_ready) = NotReady::from_phase(self.readiness.phase()) {
            return (ComponentHealth::degraded(not_ready.to_string()), None);
        }
        let Ok(recent) = recent else { return (ComponentHealth::unknown(DATABASE_UNAVAILABLE), None) };
        let requests = of_series(recent, Series::Requests);
        let recorded = requests.into_iter().next().map(|(_, recorded)| recorded).unwrap_or_default();
        (rate_requests(&recorded), recorded.latency.quantile_ms(0.95))
    }

    fn workers(&self) -> MeasuredHealth {
        let now = Instant::now();
        let states = self.sources.records.all().into_iter().map(|(name, record)| WorkerState {
            name,
            is_late: record.is_late(now),
            failures_in_a_row: record.failures_in_a_row,
        });
        let health = rate_workers(&states.collect::<Vec<_>>());
        (health, Some(millis(now.elapsed())))
    }

    /// Rates the model calls of the last five minutes; without any, uses the last check of the default provider in that
    /// time.
    fn ai(&self, recent: &RecentLatencies) -> MeasuredHealth {
        let Ok(recent) = recent else { return (ComponentHealth::unknown(DATABASE_UNAVAILABLE), None) };
        let calls = of_series(recent, Series::ModelCall);
        if let Some(health) = rate_calls(&calls) {
            let mut all = Recorded::default();
            calls.iter().for_each(|(_, recorded)| all.merge(recorded));
            return (health, all.latency.quantile_ms(0.95));
        }
        let now = self.context.clock.now();
        match &*self.components.cached_health.lock() {
            Some((at, found)) if *at <= now && now.since(*at) < WINDOW => found.clone(),
            _ => {
                let message = "No model was called in the last five minutes; check the default provider with POST /api/monitoring/health/check";
                (ComponentHealth::unknown(message), None)
            }
        }
    }
}

const DATABASE_UNAVAILABLE: &str = "Unknown while the database is unavailable";

type RecentLatencies = Result<Vec<agentd_core::rollups::LatencyBucket>, StoreError>;

fn of_series(recent: &[agentd_core::rollups::LatencyBucket], series: Series) -> Vec<(String, Recorded)> {
    merge_by_label(recent.iter().filter(|bucket| bucket.series == series))
}

fn is_unavailable(error: &ProviderError) -> bool {
    matches!(agentd_base::DomainError::kind(error), agentd_base::ErrorKind::Unavailable)
}

/// Converts the check of the default provider; `elapsed_ms` is its duration.
fn rate_default_check(check: DefaultCheck, elapsed_ms: f64) -> MeasuredHealth {
    match check {
        DefaultCheck::Answered { latency, .. } => {
            (ComponentHealth::healthy(), Some(latency.map_or(elapsed_ms, millis)))
        }
        DefaultCheck::Failed { provider, reason } => {
            (ComponentHealth::unhealthy(format!("{provider} does not respond: {reason}")), Some(elapsed_ms))
        }
        DefaultCheck::NoModel(reason) => {
            let message = format!("No model is available: {reason}");
            (ComponentHealth { status: HealthStatus::Unhealthy, message: Some(message) }, Some(elapsed_ms))
        }
    }
}
