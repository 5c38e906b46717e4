//! Idle workers. An idle worker does not run until work is due, the database is written, or [`MAX_IDLE`] has passed.
//!
//! Due times refer to the wall clock, which can be set or slewed and continues while the machine is suspended. Tokio
//! timers follow none of that, so the worker waits on a `timerfd` of the realtime clock.

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
use crate::runtime::report::{MAX_IDLE, WorkerRecords};

/// Time to sleep until the next pass: `longest`, or less if work is due before.
pub(super) fn poll_delay(worker: &dyn Worker, now: Timestamp, longest: Duration) -> Duration {
    worker.idle_until().and_then(|due| until_due(due, now)).map_or(longest, |wait| wait.min(longest))
}

/// Waits until `worker`, which found no work at version `seen` of the database, should run again.
pub(super) async fn wait_while_idle(worker: &dyn Worker, db: &Db, seen: u64, records: &WorkerRecords) {
    let is_idle = || worker.idle_until().filter(|until| db.version() == Some(seen) && *until > db.clock().now());
    let idle_limit = tokio::time::sleep(MAX_IDLE);
    tokio::pin!(idle_limit);
    while let Some(until) = is_idle() {
        records.mark_idle(worker.name());
        tokio::select! {
            () = &mut idle_limit => return,
            // Half of the interval, so that one pass handles writes that arrive together.
            () = db.changed_since(seen) => {
                return tokio::time::sleep(poll_delay(worker, db.clock().now(), worker.interval() / 2)).await;
            }
            () = wait_for_clock(worker, db, until) => {}
        }
    }
}

/// Waits until the clock reaches `until` or is set. A clock controlled by a test cannot notify and is polled.
async fn wait_for_clock(worker: &dyn Worker, db: &Db, until: Timestamp) {
    if db.clock().is_system() {
        match alarm(until) {
            Ok(alarm) => return drop(alarm.readable().await),
            Err(error) => tracing::debug!(%error, "timerfd unavailable; polling the clock"),
        }
    }
    tokio::time::sleep(poll_delay(worker, db.clock().now(), worker.interval())).await;
}

/// Creates a timer that becomes readable when the wall clock reaches `at`, and whenever the clock is set.
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
    // SAFETY: the descriptor is owned, so it stays open and unchanged while it is registered.
    let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
    registered.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use agentd_base::Clock;

    use super::*;

    #[tokio::test]
    async fn alarm_fires_when_clock_reaches_time() {
        let clock = Clock::system();
        let due = clock.now() + Duration::from_millis(50);
        let alarm = alarm(due).expect("a timer");
        drop(alarm.readable().await.expect("it ends"));
        assert!(clock.now() >= due);
    }

    #[tokio::test]
    async fn alarm_at_end_of_time_never_fires() {
        let alarm = alarm(Timestamp::from_micros(i64::MAX)).expect("a timer");
        let early = tokio::time::timeout(Duration::from_millis(50), alarm.readable()).await;
        assert!(early.is_err());
    }
}
