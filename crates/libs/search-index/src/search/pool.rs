//! Threads that help large searches, shared by all indexes of the process.
//!
//! Invariants
//! - Threads start with the first search that is large enough for several, and sleep between searches.
//! - What cannot be helped with is not waited for: the search itself does it all.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

const MAX_THREADS: usize = 8;
/// Work beyond this is not queued.
const MAX_WAITING: usize = 32;
/// A scan needs little of it.
const STACK_BYTES: usize = 256 << 10;

static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` on another thread soon, or never: where no threads can be started, and where too much is waiting already.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    let Some(pool) = POOL.get_or_init(start) else { return };
    if WAITING.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
        WAITING.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    pool.spawn(move || {
        WAITING.fetch_sub(1, Ordering::Relaxed);
        work();
    });
}

fn start() -> Option<ThreadPool> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "search".to_owned()).stack_size(STACK_BYTES);
    // The search learns of a panic by itself; without a handler it would end the process.
    pool.panic_handler(|_| ()).build().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn waiting_work_is_bounded_and_a_panic_ends_no_thread() {
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (sender, done) = mpsc::channel();
        for _ in 0..3 * (MAX_THREADS + MAX_WAITING) {
            let (held, sender) = (Arc::clone(&held), sender.clone());
            spawn(move || {
                sender.send(()).unwrap();
                let _ = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
                panic!("wanted by a test");
            });
        }
        drop((hold, sender));
        // Others may use the same threads meanwhile.
        let started = done.iter().count();
        assert!((1..=MAX_WAITING + 2 * MAX_THREADS).contains(&started), "{started}");
        let (sender, receiver) = mpsc::channel();
        while WAITING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        spawn(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
    }
}
