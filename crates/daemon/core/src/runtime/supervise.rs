//! Tasks that the daemon cannot do without. A panic in one is logged, counted and followed by a new
//! beginning, instead of ending it for good while everything else goes on as if it were there.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause; who ran for as long without a panic begins with the shortest again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often each supervised task has panicked. As many entries as there are tasks in the program.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TaskPanics(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl TaskPanics {
    /// Every task that was ever supervised, by name.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        self.0.lock().iter().map(|(task, count)| (*task, *count)).collect()
    }

    fn expect(&self, task: &'static str) {
        self.0.lock().entry(task).or_default();
    }

    fn count(&self, task: &'static str) {
        *self.0.lock().entry(task).or_default() += 1;
    }
}

/// Runs what `work` makes until it ends by itself. After a panic it is made anew, a while later; not
/// any more once the daemon drains.
pub(super) async fn supervise<W, F>(task: &'static str, panics: TaskPanics, draining: CancellationToken, mut work: W)
where
    W: FnMut() -> F,
    F: Future<Output = ()>,
{
    panics.expect(task);
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        // Making it may panic too.
        let Err(panic) = AssertUnwindSafe(async { work().await }).catch_unwind().await else { return };
        panics.count(task);
        if begun.elapsed() >= LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::error!(
            task,
            message = message(&*panic),
            pause_seconds = pause.as_secs(),
            "a background task panicked and begins anew"
        );
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
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
    async fn what_panics_begins_anew_until_it_ends() {
        let (panics, mut runs) = (TaskPanics::default(), 0);
        supervise("task", panics.clone(), CancellationToken::new(), || {
            runs += 1;
            let run = runs;
            async move { assert!(run >= 4, "run {run} goes wrong") }
        })
        .await;
        assert_eq!((runs, panics.counts()), (4, vec![("task", 3)]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_draining_daemon_begins_nothing_anew() {
        let draining = CancellationToken::new();
        draining.cancel();
        let panics = TaskPanics::default();
        let mut runs = 0;
        supervise("task", panics.clone(), draining, || {
            runs += 1;
            async { panic!("wrong") }
        })
        .await;
        assert_eq!((runs, panics.counts()), (1, vec![("task", 1)]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_never_panicked_is_counted_too() {
        let panics = TaskPanics::default();
        supervise("calm", panics.clone(), CancellationToken::new(), || async {}).await;
        assert_eq!(panics.counts(), [("calm", 0)]);
    }
}
