//! Suspension of push services that do not respond, so that they do not delay the messages of other services.

use std::collections::HashMap;
use std::time::Duration;

use agentd_base::Timestamp;
use parking_lot::Mutex;

/// Duration of a suspension. Shorter than the delay before a retry.
const SUSPENSION_DURATION: Duration = Duration::from_secs(20);

/// Suspended push services with the end of their suspension. Kept in memory, separately in each daemon.
#[derive(Default)]
pub(super) struct SilentServices(Mutex<HashMap<String, Timestamp>>);

impl SilentServices {
    /// Suspends a service.
    pub(super) fn suspend(&self, service: &str, now: Timestamp) {
        let mut until = self.0.lock();
        until.retain(|_, end| *end > now);
        until.insert(service.to_owned(), now + SUSPENSION_DURATION);
    }

    /// Whether a service is suspended.
    pub(super) fn contains(&self, service: &str, now: Timestamp) -> bool {
        self.0.lock().get(service).is_some_and(|end| *end > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unresponsive_service_is_suspended_temporarily() {
        let (silent, now) = (SilentServices::default(), Timestamp::parse("2026-01-05T09:00:00.000Z").unwrap());
        silent.suspend("https://a", now);
        assert!(silent.contains("https://a", now + Duration::from_secs(19)));
        assert!(!silent.contains("https://b", now));
        assert!(!silent.contains("https://a", now + SUSPENSION_DURATION));
        silent.suspend("https://b", now + SUSPENSION_DURATION);
        assert_eq!(silent.0.lock().len(), 1, "expired suspensions are removed");
    }
}
