//! Operations of monitoring.

mod activity;
mod analytics;
mod health;
mod performance;
mod tokens;
mod usage;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::{DomainError, Timestamp};
use agentd_core::auth::Auth;
use agentd_core::parts::Detached;
use agentd_core::rollups::{Rollups, Zoned};
use agentd_core::runtime::{
    AppContext, ComponentHealth, Family, HealthCheck, MetricList, Metrics, Sample, WorkerRecords,
};
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::projects::Projects;
use agentd_engine::providers::Providers;
use agentd_store::{Db, StoreError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::disk::StorageCheck;
use super::error::NotReady;
use super::model::{
    ApiIndex, ComponentsView, DEGRADED, HEALTHY, HealthView, LivenessView, PublicHealthView, QueueDepth, ReadinessView,
    VERSION,
};
use super::probe::{DatabaseCheck, Probe};
use super::readiness::{Phase, Readiness};
use super::store;
use super::system::{SystemProbe, SystemView};
pub use tokens::TokensPeriod;

/// Reports whether bootstrap mode is active; implemented by the domain that manages credentials.
pub trait BootstrapReporter: Send + Sync {
    /// Queries the database at most once a second, because the endpoint is public.
    ///
    /// # Errors
    /// The database is unavailable.
    fn bootstrap_mode(&self) -> BoxFuture<'_, Result<bool, StoreError>>;
}

/// Reports the depth of a domain's own queue.
pub trait QueueReporter: Send + Sync {
    /// Returns the depth of the queue.
    ///
    /// # Errors
    /// The database is unavailable.
    fn depth(&self) -> BoxFuture<'_, Result<QueueDepth, StoreError>>;
}

/// Sources of statistics and names.
#[derive(Clone)]
pub struct StatisticsSources {
    pub settings: Settings,
    pub rollups: Rollups,
    pub providers: Providers,
    pub agents: Agents,
    pub projects: Projects,
    pub auth: Auth,
    pub records: WorkerRecords,
    pub queues: Vec<Arc<dyn QueueReporter>>,
}

impl std::fmt::Debug for StatisticsSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatisticsSources").finish_non_exhaustive()
    }
}

/// Health of a component, and its latency if one was measured.
type MeasuredHealth = (ComponentHealth, Option<f64>);

/// Components, and their last results.
struct Components {
    database: Arc<dyn HealthCheck>,
    /// Checks of the domains.
    checks: Vec<Arc<dyn HealthCheck>>,
    last: tokio::sync::Mutex<Option<ComponentsView>>,
    /// Result of the last check of the default provider.
    cached_health: Mutex<Option<(Timestamp, MeasuredHealth)>>,
    /// Last measured latency of each component.
    latencies: Mutex<BTreeMap<&'static str, f64>>,
}

impl Components {
    fn new(database: Arc<dyn HealthCheck>, checks: Vec<Arc<dyn HealthCheck>>) -> Self {
        let last = tokio::sync::Mutex::default();
        Self { database, checks, last, cached_health: Mutex::default(), latencies: Mutex::default() }
    }
}

/// Service for health and statistics. Cheap to clone.
#[derive(Clone)]
pub struct Monitoring {
    context: AppContext,
    readiness: Readiness,
    probe: Arc<Probe>,
    metrics: Arc<Metrics>,
    bootstrap: Arc<dyn BootstrapReporter>,
    sources: Arc<StatisticsSources>,
    components: Arc<Components>,
    system: SystemProbe,
}

impl std::fmt::Debug for Monitoring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitoring").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

impl Monitoring {
    /// `checks` are those of the domains; the check of the database is added.
    pub fn new(
        context: &AppContext,
        readiness: Readiness,
        bootstrap: Arc<dyn BootstrapReporter>,
        mut checks: Vec<Arc<dyn HealthCheck>>,
        sources: StatisticsSources,
    ) -> Detached<Self> {
        let database = DatabaseCheck(context.db.clone());
        let storage = Arc::new(StorageCheck::new(database.clone(), &context.data_dir));
        let components = Arc::new(Components::new(storage, checks.clone()));
        checks.insert(0, Arc::new(database));
        let metrics = Arc::new(Metrics::new(context.clock.clone(), context.recorder.clone()));
        metrics.add(queue_depths(&context.db));
        let probe = Arc::new(Probe::new(context.clock.clone(), checks));
        let system = SystemProbe::new(context.data_dir.root());
        let (context, sources) = (context.clone(), Arc::new(sources));
        Detached::new(Self { context, readiness, probe, metrics, bootstrap, sources, components, system })
    }

    /// Returns the metrics registry.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    #[must_use]
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Returns the calendar of the profile's time zone.
    #[must_use]
    pub fn zone(&self) -> Zoned {
        self.sources.rollups.days()
    }

    /// Reports that the process responds.
    #[must_use]
    pub fn live(&self) -> LivenessView {
        LivenessView { status: "alive" }
    }

    #[must_use]
    pub fn health(&self) -> HealthView {
        health_view(&self.readiness, self.probe.last_outcome().is_ok())
    }

    /// Returns whether the daemon accepts work.
    ///
    /// # Errors
    /// The reason why the daemon is not ready.
    pub async fn ready(&self) -> Result<ReadinessView, NotReady> {
        if let Some(not_ready) = NotReady::from_phase(self.readiness.phase()) {
            return Err(not_ready);
        }
        self.probe.outcome().await?;
        Ok(ReadinessView { status: "ready" })
    }

    /// # Errors
    /// The database is unavailable.
    pub async fn public_health(&self) -> Result<PublicHealthView, NotReady> {
        let bootstrap_mode = self.bootstrap.bootstrap_mode().await.map_err(|error| NotReady::Component {
            code: "database_unavailable",
            message: match error.kind() {
                agentd_base::ErrorKind::Unavailable => {
                    "The bootstrap mode cannot be read because the database is unavailable; retry shortly"
                }
                _ => "The database cannot be read; see the daemon's log",
            }
            .to_owned(),
        })?;
        Ok(PublicHealthView { status: self.health().status, bootstrap_mode, version: VERSION })
    }

    #[must_use]
    pub fn index(&self) -> ApiIndex {
        ApiIndex {
            name: "agentd",
            version: VERSION,
            links: BTreeMap::from([
                ("documentation", "/api/docs"),
                ("health", "/api/health"),
                ("metrics", "/api/metrics/prometheus"),
                ("openapi", "/api/openapi.json"),
                ("ready", "/health/ready"),
            ]),
        }
    }

    /// Returns the state of the machine.
    pub async fn system(&self) -> SystemView {
        self.system.view(self.readiness.uptime()).await
    }

    /// Returns the metrics in Prometheus text format, at most one second old.
    pub async fn scrape(&self) -> Bytes {
        self.metrics.scrape().await
    }
}

pub(super) fn health_view(readiness: &Readiness, is_database_available: bool) -> HealthView {
    let status = match readiness.phase() {
        Phase::Ready if is_database_available => HEALTHY,
        Phase::Ready => DEGRADED,
        other => other.as_str(),
    };
    HealthView { status, version: VERSION, uptime_seconds: readiness.uptime().as_secs() }
}

fn queue_depths(db: &Db) -> MetricList {
    let mut metrics = MetricList::default();
    let help =
        "Items in the durable queues: waiting (pending), in progress (leased) or permanently failed (dead_letter).";
    let family = Family::gauge("svc_queue_depth", help).by(&["queue", "status"]);
    metrics.read(family, db, async |db| {
        let depths = store::list_queue_depths(&mut db.read().await?).await?;
        Ok(depths.into_iter().map(|(queue, status, items)| Sample::of(vec![queue, status], items)).collect())
    });
    metrics
}
