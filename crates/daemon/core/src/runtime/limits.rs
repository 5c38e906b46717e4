//! Concurrency limits for tasks that a worker spawns. Stopping the workers does not cancel these tasks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use tokio::sync::{Notify, watch};

/// Limit on concurrent tasks, with the number of permits taken. Cheap to clone.
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

    /// Takes a permit even if none is free; the caller checks [`Self::free`] before.
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

    /// Ends a worker's pass. Returns `false` if no permit is taken. Otherwise waits until a permit is released, `wake`
    /// is notified, or `longest` elapses, so that workers can be paused.
    pub async fn settle(&self, wake: Option<&Notify>, longest: Duration) -> bool {
        Self::settle_any(&[self], wake, longest).await
    }

    /// Variant of [`Self::settle`] for a worker with several limits.
    pub async fn settle_any(all: &[&Self], wake: Option<&Notify>, longest: Duration) -> bool {
        let mut watched = Vec::with_capacity(all.len());
        for limit in all {
            let mut taken = limit.taken.subscribe();
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

    /// Waits until no permit is taken, up to `limit`. Returns whether all were released.
    pub async fn drain(&self, limit: Duration) -> bool {
        let mut taken = self.taken.subscribe();
        tokio::time::timeout(limit, taken.wait_for(|taken| *taken == 0)).await.is_ok()
    }
}

/// Permit, released on drop.
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
    async fn settle_returns_when_a_permit_is_released() {
        let (permits, longest) = (ConcurrencyLimit::new(2), Duration::from_secs(3600));
        assert!(!permits.settle(None, longest).await);
        let (one, two) = (permits.take(), permits.take());
        assert_eq!((permits.taken(), permits.free()), (2, 0));
        assert!(!permits.drain(Duration::from_secs(1)).await);
        let waiting = permits.settle(None, longest);
        drop(one);
        assert!(waiting.await);
        assert_eq!(permits.free(), 1);
        let wake = Notify::new();
        wake.notify_one();
        assert!(permits.settle(Some(&wake), longest).await);
        assert_eq!(permits.free(), 1);
        let three = permits.try_take();
        assert!(three.is_some() && permits.try_take().is_none());
        let others = ConcurrencyLimit::new(1);
        drop(three);
        let both = [&others, &permits];
        let waiting = ConcurrencyLimit::settle_any(&both, None, longest);
        drop(two);
        assert!(!waiting.await, "no permit is taken");
        let one = others.take();
        let waiting =
            tokio::spawn(async move { ConcurrencyLimit::settle_any(&[&permits, &others], None, longest).await });
        tokio::task::yield_now().await;
        drop(one);
        assert!(waiting.await.expect("it ends"));
    }
}
