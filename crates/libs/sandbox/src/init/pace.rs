//! Delay between two measurements of resource usage.

use std::time::Duration;

/// Delay while a measurement is urgent.
const URGENT_PAUSE: Duration = Duration::from_millis(4);
/// Delay while usage changes.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(20);
/// Delay while nothing changes.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(160);

/// Returns the delay after a measurement; `pause` is the previous one.
pub(super) fn next_pause(pause: Duration, is_urgent: bool, is_busy: bool) -> Duration {
    match (is_urgent, is_busy) {
        (true, _) => URGENT_PAUSE,
        (false, true) => MIN_PAUSE,
        (false, false) => (pause * 2).clamp(MIN_PAUSE, MAX_PAUSE),
    }
}
