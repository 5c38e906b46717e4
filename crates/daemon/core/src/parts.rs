//! Composition of the daemon from the parts of its domains.

use std::sync::Arc;
use std::time::Duration;

use agentd_web::Routes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::runtime::{Base, Binding, MetricList, SlotError, Slots, Worker};

/// Contributions of one domain to the daemon.
///
/// There is no `Default`, and [`Domains::add_parts`] destructures the struct without `..`, so that a new field does not
/// compile until every domain and the daemon handle it.
///
/// ```
/// use agentd_core::parts::DomainParts;
/// use agentd_core::runtime::MetricList;
/// use agentd_web::Routes;
///
/// DomainParts {
///     routes: Routes::new(),
///     workers: Vec::new(),
///     metrics: MetricList::default(),
///     bindings: Vec::new(),
///     shutdown: Vec::new(),
/// };
/// ```
///
/// A missing field does not compile:
///
/// ```compile_fail,E0063
/// use agentd_core::parts::DomainParts;
/// use agentd_core::runtime::MetricList;
/// use agentd_web::Routes;
///
/// DomainParts { routes: Routes::new(), workers: Vec::new(), metrics: MetricList::default(), bindings: Vec::new() };
/// ```
pub struct DomainParts {
    /// Routes, with the state of their handlers.
    pub routes: Routes,
    pub workers: Vec<Box<dyn Worker>>,
    pub metrics: MetricList,
    /// Implementations of traits that lower domains define and call.
    pub bindings: Vec<Binding>,
    pub shutdown: Vec<ShutdownStep>,
}

impl std::fmt::Debug for DomainParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DomainParts")
            .field("routes", &self.routes)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

/// The service of a domain.
pub trait Domain {
    fn parts(&self) -> DomainParts;
}

impl Domain for Base {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: Routes::new(),
            workers: self.workers(),
            metrics: self.metrics(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}

/// Service that is constructed but not yet part of a daemon. Only [`Domains::add`] returns the inner service, so no
/// domain can use one that was never added:
///
/// ```compile_fail,E0308
/// use agentd_core::parts::{Detached, Domain};
///
/// fn construct_another<S: Domain>(_: &S, service: Detached<S>) {
///     let _: S = service;
/// }
/// ```
#[must_use = "a domain that is not added to the daemon does nothing"]
pub struct Detached<S>(S);

impl<S> std::fmt::Debug for Detached<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Detached")
    }
}

impl<S: Domain> Detached<S> {
    pub fn new(service: S) -> Self {
        Self(service)
    }
}

/// Builder for a daemon. The order in which domains are added is the order of the bindings of one slot.
#[derive(Debug, Default)]
pub struct Domains {
    bindings: Vec<Binding>,
    parts: DaemonParts,
}

/// Merged parts of all domains, without the bindings.
#[derive(Default)]
pub struct DaemonParts {
    pub routes: Routes,
    pub workers: Vec<Box<dyn Worker>>,
    pub metrics: Vec<MetricList>,
    pub shutdown: Vec<ShutdownStep>,
}

impl std::fmt::Debug for DaemonParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaemonParts")
            .field("routes", &self.routes)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl Domains {
    /// Adds a domain and returns its service.
    pub fn add<S: Domain>(&mut self, Detached(service): Detached<S>) -> S {
        self.add_parts(service.parts());
        service
    }

    /// Adds a domain whose service no other domain uses.
    pub fn add_parts(&mut self, parts: DomainParts) {
        let DomainParts { routes, workers, metrics, bindings, shutdown } = parts;
        self.parts.routes.merge(routes);
        self.parts.workers.extend(workers);
        self.parts.metrics.push(metrics);
        self.bindings.extend(bindings);
        self.parts.shutdown.extend(shutdown);
    }

    /// Binds an implementation that belongs to no domain.
    pub fn bind(&mut self, binding: Binding) {
        self.bindings.push(binding);
    }

    /// Routes of the domains added so far.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.parts.routes
    }

    /// Fills the slots and returns the remaining parts.
    ///
    /// # Errors
    /// `SlotError` if a slot has no implementation or an implementation has no slot.
    pub fn finish(self, slots: Slots) -> Result<DaemonParts, SlotError> {
        slots.fill(self.bindings)?;
        Ok(self.parts)
    }
}

/// Phase of a shutdown step. Phases run in this order; the steps of a phase run concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// Running turns, deliveries and notifications finish within the grace period.
    Work,
    /// Queued work that waits for a permit is released.
    Queues,
    /// Results of turns are persisted.
    Results,
    /// Recorded measurements are persisted.
    Measurements,
    /// Device connections are closed. Turns may use device tools until they finish, so this comes after `Work`.
    Connections,
    /// Child processes are stopped and files are closed.
    Processes,
}

impl ShutdownPhase {
    pub const ALL: [Self; 6] =
        [Self::Work, Self::Queues, Self::Results, Self::Measurements, Self::Connections, Self::Processes];
}

/// One shutdown step. Cheap to clone.
#[derive(Clone)]
pub struct ShutdownStep {
    phase: ShutdownPhase,
    run: Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl std::fmt::Debug for ShutdownStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ShutdownStep").field(&self.phase).finish()
    }
}

impl ShutdownStep {
    /// Creates a step that calls `run` with `owner` and the grace period of the shutdown.
    pub fn new<T, F, R>(phase: ShutdownPhase, owner: &T, run: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T, Duration) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let owner = owner.clone();
        Self { phase, run: Arc::new(move |grace| run(owner.clone(), grace).boxed()) }
    }

    #[must_use]
    pub fn phase(&self) -> ShutdownPhase {
        self.phase
    }

    pub async fn run(&self, grace: Duration) {
        (self.run)(grace).await;
    }
}
