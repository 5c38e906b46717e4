//! The figures of one daemon, in Prometheus' text format. Each daemon has its own: nothing here
//! is global, so that several can live in one process.

mod count;
mod http;
mod process;
mod recorded;
mod source;
mod text;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Clock, Timestamp};
use agentd_web::RequestObserver;
use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::Mutex;

pub use count::CountBy;
pub use source::{Family, FamilyKind, MetricSource, Sample, SourceError};

use http::HttpMetrics;
use source::{FunctionSource, Registered};
use text::Text;

use super::recorder::Recorder;

/// How long an answer to the public stands, which anybody may ask for.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Whether something that was read at `then` may still be shown at `now`. A clock that was set
/// back makes it stale rather than eternal.
#[must_use]
pub fn is_fresh(then: Timestamp, now: Timestamp) -> bool {
    then <= now && now.since(then) < FRESH_FOR
}

/// What the recorded figures are read from. Cheap to share behind an `Arc`.
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
        recorded::add(&metrics, &recorder);
        metrics
    }

    /// What hears of every finished request.
    #[must_use]
    pub fn request_observer(&self) -> Arc<dyn RequestObserver> {
        Arc::clone(&self.http) as Arc<dyn RequestObserver>
    }

    /// Adds figures that are read when somebody asks for them.
    fn add_source(&self, source: impl MetricSource + 'static) {
        self.sources.write().push(Arc::new(Registered::new(Box::new(source))));
    }

    /// Adds figures of `owner` that `read` gets when somebody asks for them. It must be cheap: the endpoint is
    /// public, though asked only once a second.
    pub fn read<T, F, R>(&self, family: Family, owner: &T, read: F)
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Sample>, SourceError>> + Send + 'static,
    {
        let owner = owner.clone();
        self.add_source(FunctionSource::new(family, move || read(owner.clone())));
    }

    /// Adds a counter with one label, whose values are all known; the domain keeps the handle.
    #[must_use]
    pub fn add_counter(&self, family: Family, values: &'static [&'static str]) -> Arc<CountBy> {
        let counter = Arc::new(CountBy::new(family, values));
        self.add_source(Arc::clone(&counter));
        counter
    }

    /// The text of all figures, at most a second old.
    pub async fn scrape(&self) -> Bytes {
        let mut last = self.last.lock().await;
        if let Some((then, text)) = &*last
            && is_fresh(*then, self.clock.now())
        {
            return text.clone();
        }
        let text = self.render().await;
        *last = Some((self.clock.now(), text.clone()));
        text
    }

    async fn render(&self) -> Bytes {
        let mut text = Text::default();
        text.family("svc_build_info", "The running program; always 1.", "gauge");
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        text.sample("svc_build_info", &[("version", env!("CARGO_PKG_VERSION")), ("profile", profile)], 1.0);
        process::write(&mut text, self.started_at);
        self.http.write(&mut text);
        recorded::write(&mut text, &self.recorder);
        let sources = self.sources.read().clone();
        for source in sources {
            source.write(&mut text).await;
        }
        text.into_bytes()
    }
}
