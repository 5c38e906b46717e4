//! Checks the critical components at most once a second, independent of the number of requests.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Clock, Timestamp};
use agentd_core::runtime::{ComponentHealth, HealthCheck, HealthStatus, is_fresh};
use agentd_store::{Db, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::error::NotReady;

/// Maximum duration of a check; a slower component counts as unavailable.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

type Outcome = Result<(), NotReady>;

pub(super) struct Probe {
    clock: Clock,
    checks: Vec<Arc<dyn HealthCheck>>,
    last: Mutex<Option<(Timestamp, Outcome)>>,
}

impl Probe {
    pub(super) fn new(clock: Clock, checks: Vec<Arc<dyn HealthCheck>>) -> Self {
        Self { clock, checks, last: Mutex::new(None) }
    }

    /// Returns the state of the critical components. Concurrent callers share one check.
    pub(super) async fn outcome(&self) -> Outcome {
        let mut last = self.last.lock().await;
        if let Some((then, outcome)) = &*last
            && is_fresh(*then, self.clock.now())
        {
            return outcome.clone();
        }
        let outcome = self.run_checks().await;
        *last = Some((self.clock.now(), outcome.clone()));
        outcome
    }

    /// Returns the last result, whatever its age, without a new check.
    pub(super) fn last_outcome(&self) -> Outcome {
        match self.last.try_lock() {
            Ok(last) => last.as_ref().map_or(Ok(()), |(_, outcome)| outcome.clone()),
            Err(_) => Ok(()),
        }
    }

    async fn run_checks(&self) -> Outcome {
        for check in self.checks.iter().filter(|check| check.is_critical()) {
            let health = tokio::time::timeout(CHECK_TIMEOUT, check.check()).await.unwrap_or_else(|_| {
                ComponentHealth::unhealthy(format!(
                    "{} does not respond; it is checked again every second",
                    check.name()
                ))
            });
            if health.status == HealthStatus::Unhealthy {
                let message = health.message.unwrap_or_else(|| format!("{} is unavailable", check.name()));
                let code = if check.id() == DATABASE_ID { "database_unavailable" } else { "component_unavailable" };
                return Err(NotReady::Component { code, message });
            }
        }
        Ok(())
    }
}

pub(super) const DATABASE_ID: &str = "db";

/// Checks that the database can be read and written, which includes a full disk.
#[derive(Debug, Clone)]
pub(super) struct DatabaseCheck(pub(super) Db);

impl HealthCheck for DatabaseCheck {
    fn id(&self) -> &'static str {
        DATABASE_ID
    }

    fn name(&self) -> &'static str {
        "Database"
    }

    fn is_critical(&self) -> bool {
        true
    }

    fn check(&self) -> BoxFuture<'_, ComponentHealth> {
        async {
            match self.0.check().await {
                Ok(()) => ComponentHealth::healthy(),
                Err(error) => ComponentHealth::unhealthy(describe(&error)),
            }
        }
        .boxed()
    }
}

/// Describes an error for the public: without addresses, paths and statements.
fn describe(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. } => {
            format!("The database is unavailable ({reason}); the daemon recovers as soon as it is available again")
        }
        StoreError::Closed => "The database is closed because the daemon is shutting down".to_owned(),
        _ => "The database cannot be read or written; see the daemon's log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use agentd_base::MockClock;

    use super::*;

    #[derive(Default)]
    struct Switch {
        is_unavailable: AtomicBool,
        asked: AtomicUsize,
    }

    impl HealthCheck for Switch {
        fn id(&self) -> &'static str {
            DATABASE_ID
        }

        fn name(&self) -> &'static str {
            "Switch"
        }

        fn is_critical(&self) -> bool {
            true
        }

        fn check(&self) -> BoxFuture<'_, ComponentHealth> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let is_unavailable = self.is_unavailable.load(Ordering::SeqCst);
            async move { if is_unavailable { ComponentHealth::unhealthy("gone") } else { ComponentHealth::healthy() } }
                .boxed()
        }
    }

    #[tokio::test]
    async fn probe_checks_at_most_once_a_second_and_recovers() {
        let clock = MockClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        let switch = Arc::new(Switch::default());
        let probe = Probe::new(clock.clock(), vec![Arc::clone(&switch) as Arc<dyn HealthCheck>]);
        for _ in 0..10 {
            assert_eq!(probe.outcome().await, Ok(()));
        }
        assert_eq!(switch.asked.load(Ordering::SeqCst), 1);
        switch.is_unavailable.store(true, Ordering::SeqCst);
        clock.advance(Duration::from_secs(1));
        let gone = NotReady::Component { code: "database_unavailable", message: "gone".to_owned() };
        assert_eq!(probe.outcome().await, Err(gone.clone()));
        assert_eq!(probe.last_outcome(), Err(gone));
        switch.is_unavailable.store(false, Ordering::SeqCst);
        clock.advance(Duration::from_secs(1));
        assert_eq!(probe.outcome().await, Ok(()));
        assert_eq!(switch.asked.load(Ordering::SeqCst), 3);
        clock.set(Timestamp::from_micros(1_700_000_000_000_000));
        assert_eq!(probe.outcome().await, Ok(()));
        assert_eq!(switch.asked.load(Ordering::SeqCst), 4, "a clock set back does not freeze the result");
    }
}
