//! What a domain gives to the daemon, and how a daemon is put together from it.

use std::sync::Arc;
use std::time::Duration;

use agentd_web::Routes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::runtime::{Base, Binding, MetricList, SlotError, Slots, Worker};

/// Parts of one domain.
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
    /// Routes with the state of their handlers.
    pub routes: Routes,
    pub workers: Vec<Box<dyn Worker>>,
    pub metrics: MetricList,
    /// Implementations of traits that lower domains call.
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

/// A service that was constructed and is not part of a daemon yet. [`Domains::add`] alone gives the service out, so a
/// domain that is not added cannot be used by another one:
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

/// The domains of a daemon that is being composed. Their order is that of bindings to one slot.
#[derive(Debug, Default)]
pub struct Domains {
    bindings: Vec<Binding>,
    parts: DaemonParts,
}

/// Parts of all domains, but for those that are called upward.
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

    /// Adds a domain whose service no other one uses.
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

    /// The routes of the domains that were added so far.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.parts.routes
    }

    /// Fills the slots, and returns what is left.
    ///
    /// # Errors
    /// A slot has no implementation, or an implementation has no slot.
    pub fn finish(self, slots: Slots) -> Result<DaemonParts, SlotError> {
        slots.fill(self.bindings)?;
        Ok(self.parts)
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
