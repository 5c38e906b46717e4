//! Combined demand of all viewers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Maximum frame rate per second.
pub const MAX_FRAMES_PER_SECOND: u8 = 10;

/// Frame rate and quality requested by a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Frames per second, clamped to 1 to [`MAX_FRAMES_PER_SECOND`].
    pub frames_per_second: u8,
    /// JPEG quality from 1 to 100. All viewers receive the highest quality requested.
    pub quality: u8,
}

impl Pace {
    pub(super) fn between_frames(self) -> Duration {
        Duration::from_secs(1) / u32::from(self.frames_per_second.clamp(1, MAX_FRAMES_PER_SECOND))
    }

    fn at_least(self, other: Self) -> Self {
        Self {
            frames_per_second: self.frames_per_second.max(other.frames_per_second),
            quality: self.quality.max(other.quality),
        }
    }
}

#[derive(Debug)]
pub(super) struct Demand {
    requests: Mutex<Requests>,
    total: watch::Sender<Option<Pace>>,
}

#[derive(Debug, Default)]
struct Requests {
    next: u64,
    paces: HashMap<u64, Pace>,
}

/// Request of one viewer, withdrawn when dropped.
#[derive(Debug)]
pub(super) struct PaceRequest {
    demand: Arc<Demand>,
    number: u64,
}

impl Demand {
    /// Creates a demand and a receiver of the combined pace, which is `None` without viewers.
    pub(super) fn new() -> (Arc<Self>, watch::Receiver<Option<Pace>>) {
        let (total, receiver) = watch::channel(None);
        (Arc::new(Self { requests: Mutex::default(), total }), receiver)
    }

    pub(super) fn request(demand: &Arc<Self>, pace: Pace) -> PaceRequest {
        let number = demand.change(|requests| {
            requests.next += 1;
            requests.paces.insert(requests.next, pace);
            requests.next
        });
        PaceRequest { demand: Arc::clone(demand), number }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Requests) -> T) -> T {
        let mut requests = self.requests.lock();
        let changed = change(&mut requests);
        let total = requests.paces.values().copied().reduce(Pace::at_least);
        // Sent within the lock, so that updates keep their order.
        self.total.send_if_modified(|known| std::mem::replace(known, total) != total);
        changed
    }
}

impl PaceRequest {
    pub(super) fn change(&self, pace: Pace) {
        self.demand.change(|requests| requests.paces.insert(self.number, pace));
    }
}

impl Drop for PaceRequest {
    fn drop(&mut self) {
        self.demand.change(|requests| requests.paces.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combined_pace_is_the_maximum_of_active_requests() {
        let pace = |frames_per_second, quality| Pace { frames_per_second, quality };
        let (demand, mut total) = Demand::new();
        let fast = Demand::request(&demand, pace(10, 20));
        let fine = Demand::request(&demand, pace(1, 90));
        assert_eq!(*total.borrow_and_update(), Some(pace(10, 90)));
        fine.change(pace(1, 10));
        assert_eq!(*total.borrow_and_update(), Some(pace(10, 20)));
        // No notification without a change.
        drop(fine);
        assert!(!total.has_changed().unwrap());
        drop(fast);
        assert_eq!(*total.borrow_and_update(), None);
    }
}
