//! Time as an argument. Production code takes a [`Clock`]; tests control it through a [`MockClock`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::Timestamp;

#[derive(Clone)]
enum Source {
    System,
    Mock(Arc<AtomicI64>),
}

/// Source of the current time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Source);

impl Clock {
    /// Returns the system clock. Called once, in `main`.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Whether this is the system clock, so that a kernel timer can be used to wait for a time.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(self.0, Source::System)
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
            Source::System => {
                let since_epoch =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Mock(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// Clock that stands still until a test advances it.
#[derive(Debug, Clone)]
pub struct MockClock(Arc<AtomicI64>);

impl MockClock {
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Mock(Arc::clone(&self.0)))
    }

    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }

    pub fn set(&self, to: Timestamp) {
        self.0.store(to.as_micros(), Ordering::SeqCst);
    }
}
