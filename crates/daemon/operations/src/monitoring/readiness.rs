//! Readiness according to the life cycle of the daemon. Failing components, such as the database, are detected by the
//! probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Phase in the life cycle of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    Starting = 0,
    Ready = 1,
    Restoring = 2,
    /// Final: a draining daemon always shuts down.
    Draining = 3,
}

impl Phase {
    /// Returns the serialized name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Restoring => "restoring",
            Self::Draining => "draining",
        }
    }
}

#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    started: Instant,
    in_flight: AtomicUsize,
    request_ended: Notify,
}

/// Set by the life cycle and read by the probes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Shared>);

impl Readiness {
    /// Creates the state of a starting daemon. Its uptime counts from here.
    #[must_use]
    pub fn starting() -> Self {
        Self(Arc::new(Shared {
            phase: AtomicU8::new(Phase::Starting as u8),
            started: Instant::now(),
            in_flight: AtomicUsize::new(0),
            request_ended: Notify::new(),
        }))
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            2 => Phase::Restoring,
            _ => Phase::Draining,
        }
    }

    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    pub fn set_ready(&self) {
        self.change(Phase::Starting, Phase::Ready);
    }

    pub fn set_draining(&self) {
        self.0.phase.store(Phase::Draining as u8, Ordering::SeqCst);
    }

    /// Suspends readiness for a restore until the guard is dropped. Returns `None` if the daemon is starting, draining
    /// or already restoring.
    #[must_use]
    pub fn begin_restore(&self) -> Option<RestoreGuard> {
        self.change(Phase::Ready, Phase::Restoring).then(|| RestoreGuard(self.clone()))
    }

    fn change(&self, from: Phase, to: Phase) -> bool {
        self.0.phase.compare_exchange(from as u8, to as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Counts a request until the permit is dropped; returns `None` if the daemon accepts none.
    pub(super) fn admit(&self) -> Option<AdmissionPermit> {
        // Counted before the phase is read, so that a restore starting in between either sees the request or rejects
        // it.
        self.0.in_flight.fetch_add(1, Ordering::SeqCst);
        let admitted = AdmissionPermit(self.clone());
        matches!(self.phase(), Phase::Ready | Phase::Draining).then_some(admitted)
    }

    /// Waits until all admitted requests are answered or the time limit is reached; returns whether all were answered.
    pub async fn wait_until_quiet(&self, limit: Duration) -> bool {
        let quiet = async {
            loop {
                let mut ended = std::pin::pin!(self.0.request_ended.notified());
                ended.as_mut().enable();
                if self.0.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                ended.await;
            }
        };
        tokio::time::timeout(limit, quiet).await.is_ok()
    }
}

/// Marks a running restore. Dropping it makes the daemon ready again, unless it is draining.
#[derive(Debug)]
pub struct RestoreGuard(Readiness);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        self.0.change(Phase::Restoring, Phase::Ready);
    }
}

/// Request in progress.
#[derive(Debug)]
pub struct AdmissionPermit(Readiness);

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        if self.0.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.request_ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_final() {
        let readiness = Readiness::starting();
        readiness.set_draining();
        readiness.set_ready();
        assert_eq!(readiness.phase(), Phase::Draining);
        assert!(readiness.begin_restore().is_none());
    }

    #[test]
    fn restore_ends_ready_unless_the_daemon_drains() {
        let readiness = Readiness::starting();
        assert!(readiness.begin_restore().is_none(), "not while starting");
        readiness.set_ready();
        let guard = readiness.begin_restore().unwrap();
        assert!(readiness.begin_restore().is_none(), "one at a time");
        assert!(readiness.admit().is_none());
        drop(guard);
        assert_eq!(readiness.phase(), Phase::Ready);
        let guard = readiness.begin_restore().unwrap();
        readiness.set_draining();
        drop(guard);
        assert_eq!(readiness.phase(), Phase::Draining);
    }

    #[tokio::test]
    async fn wait_until_quiet_ends_with_the_last_request() {
        let readiness = Readiness::starting();
        readiness.set_ready();
        let (first, second) = (readiness.admit().unwrap(), readiness.admit().unwrap());
        let guard = readiness.begin_restore().unwrap();
        assert!(!readiness.wait_until_quiet(Duration::ZERO).await);
        let waiter = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.wait_until_quiet(Duration::from_secs(60)).await }
        });
        drop((first, second));
        assert!(waiter.await.unwrap());
        drop(guard);
    }
}
