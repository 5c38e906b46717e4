//! Waits for the end of the program, a stop request of the daemon, or an exceeded limit.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open};

use super::meter::Meter;
use super::pace::{MIN_PAUSE, next_pause};
use crate::plan::Report;

pub(crate) fn until_end(program: Pid, control: &OwnedFd, guard: Option<&OwnedFd>, mut meter: Meter) -> Report {
    // A program that ended immediately is still a zombie child, so it is found.
    let Ok(pidfd) = pidfd_open(program, PidfdFlags::empty()) else { return Report::Stopped };
    let mut pause = MIN_PAUSE;
    let mut next_measurement = Instant::now() + pause;
    loop {
        let mut descriptors = vec![PollFd::new(&pidfd, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        descriptors.extend(guard.map(|guard| PollFd::new(guard, PollFlags::IN)));
        let wait = next_measurement.saturating_duration_since(Instant::now()).min(meter.max_wait());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        // An interrupted wait is treated like a timeout.
        let _ = poll(&mut descriptors, Some(&timeout));
        let ended_otherwise = descriptors[1..].iter().any(|descriptor| !descriptor.revents().is_empty());
        if let Some(status) = reap(program) {
            // Remaining processes could continue writing while the workspace is counted.
            super::tree::end_all(meter.tier);
            if meter.has_group_oom_kill() {
                return meter.memory_limit();
            }
            return meter.measure_workspace().unwrap_or_else(|| report(status));
        }
        if ended_otherwise {
            return Report::Stopped;
        }
        if let Some(broken) = meter.check_workspace_files() {
            return broken;
        }
        if Instant::now() >= next_measurement || meter.is_measurement_due() {
            if let Some(broken) = meter.measure() {
                return broken;
            }
            pause = next_pause(pause, meter.is_urgent, meter.busy);
            next_measurement = Instant::now() + pause;
        }
    }
}

/// Reaps every child that has ended; returns the program's status if it is among them.
fn reap(program: Pid) -> Option<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => return Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

fn report(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited { code },
        (None, Some(signal)) => Report::Signaled { signal },
        (None, None) => Report::Stopped,
    }
}
