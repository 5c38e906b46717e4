//! Concurrency limits for work that runs beside its worker: what has begun is not cut off when the workers stop,
//! and no more runs at once than the limit allows.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use tokio::sync::{Notify, watch};

/// How many may work at once, and how many do. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit {
    limit: usize,
    taken: Arc<watch::Sender<usize>>,
}

impl ConcurrencyLimit {
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: Arc::new(watch::Sender::new(0)) }
    }

    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    #[must_use]
    pub fn taken(&self) -> usize {
        *self.taken.borrow()
    }

    #[must_use]
    pub fn free(&self) -> usize {
        self.limit.saturating_sub(self.taken())
    }

    /// Takes a permit, free or not: the caller asks [`Self::free`] before.
    #[must_use]
    pub fn take(&self) -> Permit {
        self.taken.send_modify(|taken| *taken += 1);
        Permit(Arc::clone(&self.taken))
    }

    /// Takes a permit if one is free.
    #[must_use]
    pub fn try_take(&self) -> Option<Permit> {
        let is_taken = self.taken.send_if_modified(|taken| {
            let is_free = *taken < self.limit;
            *taken += usize::from(is_free);
            is_free
        });
        is_taken.then(|| Permit(Arc::clone(&self.taken)))
    }

    /// The end of a worker's round: `false` when no permit is taken, so that there is nothing to wait for.
    /// Else waits until one is free again, `wake` says that there is more to do, or `longest` is over, so
    /// that the daemon can come to rest meanwhile.
    pub async fn settle(&self, wake: Option<&Notify>, longest: Duration) -> bool {
        Self::settle_any(&[self], wake, longest).await
    }

    /// [`Self::settle`] of a worker that has several limits.
    pub async fn settle_any(all: &[&Self], wake: Option<&Notify>, longest: Duration) -> bool {
        let mut watched = Vec::with_capacity(all.len());
        for places in all {
            let mut taken = places.taken.subscribe();
            let before = *taken.borrow_and_update();
            if before > 0 {
                watched.push((before, taken));
            }
        }
        if watched.is_empty() {
            return false;
        }
        let freed = watched.iter_mut().map(|(before, taken)| taken.wait_for(|taken| *taken < *before).boxed());
        let woken = async {
            match wake {
                Some(wake) => wake.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = select_all(freed) => {}
            () = woken => {}
            () = tokio::time::sleep(longest) => {}
        }
        true
    }

    /// Waits until no permit is taken, at most for `limit`; answers whether that is so.
    pub async fn drain(&self, limit: Duration) -> bool {
        let mut taken = self.taken.subscribe();
        tokio::time::timeout(limit, taken.wait_for(|taken| *taken == 0)).await.is_ok()
    }
}

/// One permit; given back when it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<watch::Sender<usize>>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.send_modify(|taken| *taken -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_round_ends_when_a_place_is_free_again() {
        let (places, longest) = (ConcurrencyLimit::new(2), Duration::from_secs(3600));
        assert!(!places.settle(None, longest).await);
        let (one, two) = (places.take(), places.take());
        assert_eq!((places.taken(), places.free()), (2, 0));
        assert!(!places.drain(Duration::from_secs(1)).await);
        let waiting = places.settle(None, longest);
        drop(one);
        assert!(waiting.await);
        assert_eq!(places.free(), 1);
        let wake = Notify::new();
        wake.notify_one();
        assert!(places.settle(Some(&wake), longest).await);
        assert_eq!(places.free(), 1);
        let three = places.try_take();
        assert!(three.is_some() && places.try_take().is_none());
        let others = ConcurrencyLimit::new(1);
        drop(three);
        let both = [&others, &places];
        let waiting = ConcurrencyLimit::settle_any(&both, None, longest);
        drop(two);
        assert!(!waiting.await, "nothing is taken any more");
        let one = others.take();
        let waiting =
            tokio::spawn(async move { ConcurrencyLimit::settle_any(&[&places, &others], None, longest).await });
        tokio::task::yield_now().await;
        drop(one);
        assert!(waiting.await.expect("it ends"));
    }
}
