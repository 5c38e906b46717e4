//! How long the supervisor pauses between two looks at what the processes use.

use std::time::Duration;

/// While a look is urgent.
const URGENT: Duration = Duration::from_millis(4);
/// While much changes.
pub(super) const SHORTEST: Duration = Duration::from_millis(20);
/// While nothing changes.
pub(super) const LONGEST: Duration = Duration::from_millis(160);

/// The pause after a look; `pause` is the one before it.
pub(super) fn next_pause(pause: Duration, is_urgent: bool, is_busy: bool) -> Duration {
    match (is_urgent, is_busy) {
        (true, _) => URGENT,
        (false, true) => SHORTEST,
        (false, false) => (pause * 2).clamp(SHORTEST, LONGEST),
    }
}
