//! Thread pool for large searches, shared by all indexes of the process.
//!
//! Invariants
//! - Threads start with the first search that is large enough, and sleep between searches.
//! - Help is never waited for: the search does all remaining work itself.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

const MAX_THREADS: usize = 8;
/// Maximum number of queued tasks.
const MAX_QUEUED: usize = 32;
/// Small, because a scan needs little stack.
const STACK_BYTES: usize = 256 << 10;

static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` on another thread, or never: if no threads can be started or the queue is full.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    let Some(pool) = POOL.get_or_init(start) else { return };
    if QUEUED.fetch_add(1, Ordering::Relaxed) >= MAX_QUEUED {
        QUEUED.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    pool.spawn(move || {
        QUEUED.fetch_sub(1, Ordering::Relaxed);
        work();
    });
}

fn start() -> Option<ThreadPool> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "search".to_owned()).stack_size(STACK_BYTES);
    // The search detects a panic itself; without a handler it would abort the process.
    pool.panic_handler(|_| ()).build().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn queue_is_bounded_and_threads_survive_panics() {
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (sender, done) = mpsc::channel();
        for _ in 0..3 * (MAX_THREADS + MAX_QUEUED) {
            let (held, sender) = (Arc::clone(&held), sender.clone());
            spawn(move || {
                sender.send(()).unwrap();
                let _ = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
                panic!("wanted by a test");
            });
        }
        drop((hold, sender));
        // Other tests may use the same threads meanwhile.
        let started = done.iter().count();
        assert!((1..=MAX_QUEUED + 2 * MAX_THREADS).contains(&started), "{started}");
        let (sender, receiver) = mpsc::channel();
        while QUEUED.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        spawn(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
    }
}
