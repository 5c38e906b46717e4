//! Whether the daemon may be sent work, as the life cycle knows it. What the life cycle cannot
//! know, a database that went away, is the probe's business.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Where the daemon stands between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    Starting = 0,
    Ready = 1,
    Restoring = 2,
    /// Final: whatever else happens, a draining daemon ends.
    Draining = 3,
}

impl Phase {
    /// The word on the wire.
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
    requests_under_way: AtomicUsize,
    one_ended: Notify,
}

/// Set by the life cycle, read by the probes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Shared>);

impl Readiness {
    /// A daemon that has just begun to start. Its uptime counts from here.
    #[must_use]
    pub fn starting() -> Self {
        Self(Arc::new(Shared {
            phase: AtomicU8::new(Phase::Starting as u8),
            started: Instant::now(),
            requests_under_way: AtomicUsize::new(0),
            one_ended: Notify::new(),
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

    /// Makes the daemon unready for a restore, until the guard is dropped. `None` when it is not
    /// ready: still starting, going down, or in another restore.
    #[must_use]
    pub fn begin_restore(&self) -> Option<RestoreGuard> {
        self.change(Phase::Ready, Phase::Restoring).then(|| RestoreGuard(self.clone()))
    }

    fn change(&self, from: Phase, to: Phase) -> bool {
        self.0.phase.compare_exchange(from as u8, to as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Counts a request until the answer is dropped; `None` when the daemon takes none now.
    pub(super) fn admit(&self) -> Option<Admitted> {
        // Counted before the phase is read: a restore that begins in between either sees the
        // request or is seen by it.
        self.0.requests_under_way.fetch_add(1, Ordering::SeqCst);
        let admitted = Admitted(self.clone());
        matches!(self.phase(), Phase::Ready | Phase::Draining).then_some(admitted)
    }

    /// Waits until every admitted request was answered, or the time is up; whether all were.
    pub async fn wait_until_quiet(&self, limit: Duration) -> bool {
        let quiet = async {
            loop {
                let mut ended = std::pin::pin!(self.0.one_ended.notified());
                ended.as_mut().enable();
                if self.0.requests_under_way.load(Ordering::SeqCst) == 0 {
                    return;
                }
                ended.await;
            }
        };
        tokio::time::timeout(limit, quiet).await.is_ok()
    }
}

/// The daemon restores; dropping this makes it ready again, unless it is going down by then.
#[derive(Debug)]
pub struct RestoreGuard(Readiness);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        self.0.change(Phase::Restoring, Phase::Ready);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Admitted(Readiness);

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.0.0.requests_under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.one_ended.notify_waiters();
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
    fn a_restore_ends_ready_unless_the_daemon_goes_down_meanwhile() {
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
    async fn quiet_is_when_the_last_admitted_request_ended() {
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
