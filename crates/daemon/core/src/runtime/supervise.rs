//! Supervised tasks. A panic in one is logged and counted, and the task is restarted after a backoff.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Longest backoff. A task that ran this long without a panic starts again with the shortest.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Number of panics of each supervised task, with one entry per task in the program. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TaskPanics(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl TaskPanics {
    /// Panics by task name, including tasks that never panicked.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        self.0.lock().iter().map(|(task, count)| (*task, *count)).collect()
    }

    fn register(&self, task: &'static str) {
        self.0.lock().entry(task).or_default();
    }

    fn increment(&self, task: &'static str) {
        *self.0.lock().entry(task).or_default() += 1;
    }
}

/// Runs the future that `work` returns until it ends. After a panic, waits for the backoff and calls `work` again,
/// unless the daemon is draining.
pub(super) async fn supervise<W, F>(task: &'static str, panics: TaskPanics, draining: CancellationToken, mut work: W)
where
    W: FnMut() -> F,
    F: Future<Output = ()>,
{
    panics.register(task);
    let mut backoff = MIN_BACKOFF;
    loop {
        let started = Instant::now();
        // Inside the async block, because `work` itself may panic too.
        let Err(panic) = AssertUnwindSafe(async { work().await }).catch_unwind().await else { return };
        panics.increment(task);
        if started.elapsed() >= MAX_BACKOFF {
            backoff = MIN_BACKOFF;
        }
        tracing::error!(
            task,
            message = message(&*panic),
            backoff_seconds = backoff.as_secs(),
            "background task panicked"
        );
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(backoff) => {}
        }
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn panicking_task_is_restarted_until_it_ends() {
        let (panics, mut runs) = (TaskPanics::default(), 0);
        supervise("task", panics.clone(), CancellationToken::new(), || {
            runs += 1;
            let run = runs;
            async move { assert!(run >= 4, "run {run} fails") }
        })
        .await;
        assert_eq!((runs, panics.counts()), (4, vec![("task", 3)]));
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_not_restarted_while_draining() {
        let draining = CancellationToken::new();
        draining.cancel();
        let panics = TaskPanics::default();
        let mut runs = 0;
        supervise("task", panics.clone(), draining, || {
            runs += 1;
            async { panic!("failed") }
        })
        .await;
        assert_eq!((runs, panics.counts()), (1, vec![("task", 1)]));
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_never_panicked_has_a_count() {
        let panics = TaskPanics::default();
        supervise("calm", panics.clone(), CancellationToken::new(), || async {}).await;
        assert_eq!(panics.counts(), [("calm", 0)]);
    }
}
