//! How workers rest: nothing runs for one until something is due or was written, or it has rested for long.
//!
//! What is due is due by the machine's clock. That may be set, goes on while the machine sleeps, and is made faster or
//! slower to correct it; timers do none of it. So the kernel is told to wake the worker when the clock shows a time.

use std::io;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Db;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Worker, until_due};
use crate::runtime::report::{LONGEST_REST, WorkerRecords};

/// How long to sleep before looking again: `longest`, but not past the time when something is due.
pub(super) fn nap(worker: &dyn Worker, now: Timestamp, longest: Duration) -> Duration {
    worker.idle_until().and_then(|due| until_due(due, now)).map_or(longest, |wait| wait.min(longest))
}

/// Returns when `worker` is to begin a pass: it found nothing to do at the version `seen` of the database.
pub(super) async fn rest(worker: &dyn Worker, db: &Db, seen: u64, records: &WorkerRecords) {
    let is_idle = || worker.idle_until().filter(|until| db.version() == Some(seen) && *until > db.clock().now());
    let rested = tokio::time::sleep(LONGEST_REST);
    tokio::pin!(rested);
    while let Some(until) = is_idle() {
        records.rests(worker.name());
        tokio::select! {
            () = &mut rested => return,
            // Half of what it is left alone while there is work, so that what comes together is seen together.
            () = db.changed_since(seen) => {
                return tokio::time::sleep(nap(worker, db.clock().now(), worker.interval() / 2)).await;
            }
            () = clock_moved(worker, db, until) => {}
        }
    }
}

/// Waits until the clock shows `until` or was set. A clock that a test moves says nothing, and is looked at.
async fn clock_moved(worker: &dyn Worker, db: &Db, until: Timestamp) {
    if db.clock().is_system() {
        match alarm(until) {
            Ok(alarm) => return drop(alarm.readable().await),
            Err(error) => tracing::debug!(%error, "the clock is looked at, because the kernel does not watch it"),
        }
    }
    tokio::time::sleep(nap(worker, db.clock().now(), worker.interval())).await;
}

/// Readable when the machine's clock shows `at`, also where that is because it was set or the machine slept, and when
/// it was set to any other time.
#[allow(unsafe_code, reason = "waiting for a descriptor is unsafe by signature")]
fn alarm(at: Timestamp) -> io::Result<AsyncFd<OwnedFd>> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let since_epoch = Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or_default());
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let expires = Timespec {
        tv_sec: since_epoch.as_secs().try_into().unwrap_or_default(),
        tv_nsec: since_epoch.subsec_nanos().into(),
    };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &Itimerspec { it_interval: never, it_value: expires })?;
    // SAFETY: the descriptor is owned, so it stays open and the same for as long as it is waited for.
    let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
    registered.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use agentd_base::Clock;

    use super::*;

    #[tokio::test]
    async fn the_kernel_says_when_the_clock_shows_a_time() {
        let clock = Clock::system();
        let due = clock.now() + Duration::from_millis(50);
        let alarm = alarm(due).expect("a timer");
        drop(alarm.readable().await.expect("it ends"));
        assert!(clock.now() >= due);
    }

    #[tokio::test]
    async fn what_is_never_due_never_wakes() {
        let alarm = alarm(Timestamp::from_micros(i64::MAX)).expect("a timer");
        let early = tokio::time::timeout(Duration::from_millis(50), alarm.readable()).await;
        assert!(early.is_err());
    }
}
