//! Metrics of one daemon, in Prometheus' text format and for an OTLP collector. Nothing is global, so several daemons
//! can run in one process.

mod count;
mod exposition;
mod http;
mod process;
mod recorded;
mod source;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Clock, Timestamp};
use agentd_telemetry::{KeyValue, MetricFamily, MetricPoint};
use agentd_web::RequestObserver;
use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::Mutex;

pub use count::CountBy;
pub use source::{Family, FamilyKind, MetricList, MetricSource, Sample, SourceError};

use exposition::FamilySnapshot;
use http::HttpMetrics;
use source::Registered;

use super::recorder::Recorder;

/// Cache time of public responses.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Whether a value read at `then` may still be returned at `now`. If the clock was set back, the value is stale.
#[must_use]
pub fn is_fresh(then: Timestamp, now: Timestamp) -> bool {
    then <= now && now.since(then) < CACHE_TTL
}

/// Registry of all metrics of a daemon, shared behind an `Arc`.
pub struct Metrics {
    clock: Clock,
    started_at: Timestamp,
    http: Arc<HttpMetrics>,
    recorder: Recorder,
    sources: RwLock<Vec<Arc<Registered>>>,
    last: Mutex<Option<(Timestamp, Bytes)>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    #[must_use]
    pub fn new(clock: Clock, recorder: Recorder) -> Self {
        let metrics = Self {
            started_at: clock.now(),
            clock,
            http: Arc::new(HttpMetrics::new(recorder.clone())),
            recorder: recorder.clone(),
            sources: RwLock::default(),
            last: Mutex::new(None),
        };
        metrics.add(recorded::counters(&recorder));
        metrics
    }

    /// Observer of finished requests.
    #[must_use]
    pub fn request_observer(&self) -> Arc<dyn RequestObserver> {
        Arc::clone(&self.http) as Arc<dyn RequestObserver>
    }

    /// Adds the metrics of a domain.
    pub fn add(&self, metrics: MetricList) {
        self.sources.write().extend(metrics.0.into_iter().map(|source| Arc::new(Registered::new(source))));
    }

    /// Returns the text exposition of all metrics, at most one second old.
    pub async fn scrape(&self) -> Bytes {
        let mut last = self.last.lock().await;
        if let Some((then, text)) = &*last
            && is_fresh(*then, self.clock.now())
        {
            return text.clone();
        }
        let text = exposition::text(self.families().await);
        *last = Some((self.clock.now(), text.clone()));
        text
    }

    /// Returns all counters and gauges, for a collector. Histograms are exported as they are recorded.
    pub async fn values(&self) -> Vec<MetricFamily> {
        let values = |exposed| match exposed {
            FamilySnapshot::Values { family, samples } => Some(metric_family(family, samples)),
            FamilySnapshot::Histograms { .. } => None,
        };
        self.families().await.into_iter().filter_map(values).collect()
    }

    /// Reads all families, in the order of the exposition.
    async fn families(&self) -> Vec<FamilySnapshot> {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let build = Family::gauge("svc_build_info", "The running program; always 1.").by(&["version", "profile"]);
        let labels = vec![env!("CARGO_PKG_VERSION").to_owned(), profile.to_owned()];
        let mut families = vec![FamilySnapshot::Values { family: build, samples: vec![Sample { labels, value: 1.0 }] }];
        families.extend(process::families(self.started_at));
        families.extend(self.http.families());
        families.extend(recorded::histograms(&self.recorder));
        let sources = self.sources.read().clone();
        for source in sources {
            let read = source.read().await;
            families.extend(read.map(|(family, samples)| FamilySnapshot::Values { family, samples }));
        }
        families
    }
}

fn metric_family(family: Family, samples: Vec<Sample>) -> MetricFamily {
    let point = |Sample { labels, value }| {
        let attributes = family.labels.iter().zip(labels).map(|(label, value)| KeyValue::new(*label, value)).collect();
        MetricPoint { attributes, value }
    };
    MetricFamily {
        name: family.name,
        help: family.help,
        is_counter: family.kind == FamilyKind::Counter,
        points: samples.into_iter().map(point).collect(),
    }
}
