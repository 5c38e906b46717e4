//! Push services that do not answer: the devices behind one would otherwise keep everybody else's messages waiting.

use std::collections::HashMap;
use std::time::Duration;

use agentd_base::Timestamp;
use parking_lot::Mutex;

/// Less than a message waits for its next attempt.
const LEFT_ALONE: Duration = Duration::from_secs(20);

/// Until when which service is left alone. In memory: another daemon finds it out itself.
#[derive(Default)]
pub(super) struct SilentServices(Mutex<HashMap<String, Timestamp>>);

impl SilentServices {
    pub(super) fn note(&self, service: &str, now: Timestamp) {
        let mut until = self.0.lock();
        until.retain(|_, end| *end > now);
        until.insert(service.to_owned(), now + LEFT_ALONE);
    }

    pub(super) fn contains(&self, service: &str, now: Timestamp) -> bool {
        self.0.lock().get(service).is_some_and(|end| *end > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_left_alone_for_a_while() {
        let (silent, now) = (SilentServices::default(), Timestamp::parse("2026-01-05T09:00:00.000Z").unwrap());
        silent.note("https://a", now);
        assert!(silent.contains("https://a", now + Duration::from_secs(19)));
        assert!(!silent.contains("https://b", now));
        assert!(!silent.contains("https://a", now + LEFT_ALONE));
        silent.note("https://b", now + LEFT_ALONE);
        assert_eq!(silent.0.lock().len(), 1, "what is over is forgotten");
    }
}
