//! What all viewers want together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The most pictures that are taken in a second.
pub const MAX_FRAMES_PER_SECOND: u8 = 10;

/// What a viewer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between 1 and [`MAX_FRAMES_PER_SECOND`]; taken as the nearest of them.
    pub frames_per_second: u8,
    /// Of the JPEG, 1 to 100. Where viewers want different ones, all have the best.
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
    wishes: Mutex<Wishes>,
    total: watch::Sender<Option<Pace>>,
}

#[derive(Debug, Default)]
struct Wishes {
    next: u64,
    paces: HashMap<u64, Pace>,
}

/// Of one viewer, until it is dropped.
#[derive(Debug)]
pub(super) struct Wish {
    demand: Arc<Demand>,
    number: u64,
}

impl Demand {
    /// With what all want, as it changes; nothing while there is nobody.
    pub(super) fn new() -> (Arc<Self>, watch::Receiver<Option<Pace>>) {
        let (total, receiver) = watch::channel(None);
        (Arc::new(Self { wishes: Mutex::default(), total }), receiver)
    }

    pub(super) fn join(demand: &Arc<Self>, pace: Pace) -> Wish {
        let number = demand.change(|wishes| {
            wishes.next += 1;
            wishes.paces.insert(wishes.next, pace);
            wishes.next
        });
        Wish { demand: Arc::clone(demand), number }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Wishes) -> T) -> T {
        let mut wishes = self.wishes.lock();
        let changed = change(&mut wishes);
        let total = wishes.paces.values().copied().reduce(Pace::at_least);
        // Within the lock, so that the last change is the last word.
        self.total.send_if_modified(|known| std::mem::replace(known, total) != total);
        changed
    }
}

impl Wish {
    pub(super) fn change(&self, pace: Pace) {
        self.demand.change(|wishes| wishes.paces.insert(self.number, pace));
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.demand.change(|wishes| wishes.paces.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_wishes_counts_while_it_is_there() {
        let pace = |frames_per_second, quality| Pace { frames_per_second, quality };
        let (demand, mut total) = Demand::new();
        let fast = Demand::join(&demand, pace(10, 20));
        let fine = Demand::join(&demand, pace(1, 90));
        assert_eq!(*total.borrow_and_update(), Some(pace(10, 90)));
        fine.change(pace(1, 10));
        assert_eq!(*total.borrow_and_update(), Some(pace(10, 20)));
        // What changes nothing wakes nobody.
        drop(fine);
        assert!(!total.has_changed().unwrap());
        drop(fast);
        assert_eq!(*total.borrow_and_update(), None);
    }
}
