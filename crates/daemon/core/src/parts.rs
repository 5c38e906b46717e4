//! Parts of a domain: workers, metrics, settings and shutdown steps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::runtime::{MetricList, Worker};
use crate::settings::{FindsNamed, PortableSection};

/// Parts of one domain.
///
/// There is no `Default`, and `compose` destructures the struct without `..`, so that a new field does not compile until
/// every domain and `compose` handle it.
///
/// ```
/// use agentd_core::parts::DomainParts;
/// use agentd_core::runtime::MetricList;
///
/// DomainParts {
///     workers: Vec::new(),
///     metrics: MetricList::default(),
///     portable: Vec::new(),
///     finders: Vec::new(),
///     shutdown: Vec::new(),
/// };
/// ```
///
/// A missing field does not compile:
///
/// ```compile_fail,E0063
/// use agentd_core::parts::DomainParts;
/// use agentd_core::runtime::MetricList;
///
/// DomainParts { workers: Vec::new(), metrics: MetricList::default(), portable: Vec::new(), finders: Vec::new() };
/// ```
pub struct DomainParts {
    pub workers: Vec<Box<dyn Worker>>,
    pub metrics: MetricList,
    /// Settings that are stored as rows of the domain.
    pub portable: Vec<Arc<dyn PortableSection>>,
    /// Lookups for settings that name an object of the domain.
    pub finders: Vec<Arc<dyn FindsNamed>>,
    pub shutdown: Vec<ShutdownStep>,
}

impl std::fmt::Debug for DomainParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DomainParts").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

/// Phase of a shutdown step. Phases run in this order; the steps of a phase run concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// Work under way ends within the grace period: turns, deliveries, notifications.
    Work,
    /// Work that waits for a permit is given back.
    Waiting,
    /// Results of turns are stored.
    Learned,
    /// Measurements are stored.
    Measured,
    /// Connections of devices end, whose tools turns used to the end.
    Connections,
    /// Child processes end, and files are closed.
    Processes,
}

impl ShutdownPhase {
    pub const ALL: [Self; 6] =
        [Self::Work, Self::Waiting, Self::Learned, Self::Measured, Self::Connections, Self::Processes];
}

/// One step of the shutdown. Cheap to clone.
#[derive(Clone)]
pub struct ShutdownStep {
    phase: ShutdownPhase,
    end: Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl std::fmt::Debug for ShutdownStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ShutdownStep").field(&self.phase).finish()
    }
}

impl ShutdownStep {
    /// `end` is called with `owner` and the grace period of the shutdown.
    pub fn new<T, F, R>(phase: ShutdownPhase, owner: &T, end: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T, Duration) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let owner = owner.clone();
        Self { phase, end: Arc::new(move |grace| end(owner.clone(), grace).boxed()) }
    }

    #[must_use]
    pub fn phase(&self) -> ShutdownPhase {
        self.phase
    }

    pub async fn run(&self, grace: Duration) {
        (self.end)(grace).await;
    }
}
