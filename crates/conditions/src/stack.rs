//! Room for recursion: the parser descends with the text, and a stack that ends takes the daemon with it.

use std::thread;

/// Enough for the longest text that is allowed; pages that are not used cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// Runs `work` on a stack of its own; `None` when it panicked, or there was no thread to be had.
pub(crate) fn on_own_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("condition".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}
