//! Incomplete sandboxes of a killed daemon.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use agentd_sandbox::Backend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::machine::Machine;

/// Starts bubblewrap, blocked before it maps the users, and returns it with its inner process.
#[allow(clippy::disallowed_methods, reason = "a child of the daemon's own would be ended with its group")]
fn incomplete_sandbox(directory: &std::path::Path) -> Option<(Child, OwnedFd)> {
    let mut outside = Command::new("/usr/bin/bwrap")
        .args(["--unshare-all", "--unshare-user", "--die-with-parent", "--info-fd", "1", "--userns-block-fd", "0"])
        .args(["--ro-bind", "/", "/", "--ro-bind"])
        .args([directory, directory])
        .arg("true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // Reads to the end, since a process that writes to a closed pipe is killed.
    let lines = BufReader::new(outside.stdout.take()?).lines().map_while(Result::ok);
    let output: Vec<String> = lines.take_while(|line| line != "}").collect();
    let number = output.iter().find_map(|line| line.split_once("child-pid\": "))?.1;
    let inside = number.trim_end_matches(',').parse::<i32>().ok()?;
    let inside = pidfd_open(Pid::from_raw(inside)?, PidfdFlags::empty()).ok()?;
    Some((outside, inside))
}

fn has_ended(process: &OwnedFd, seconds: i64) -> bool {
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).unwrap() == 1
}

#[tokio::test]
async fn orphaned_sandbox_is_killed_by_the_next_daemon() {
    let machine = Machine::new(Backend::None, false);
    let state = machine.workspace().parent().unwrap().join("sandbox");
    let elsewhere = tempfile::tempdir().unwrap();
    let (Some((mut lost, left)), Some((mut other, others)), Some((_held, kept))) =
        (incomplete_sandbox(&state), incomplete_sandbox(elsewhere.path()), incomplete_sandbox(&state))
    else {
        println!("NOT TESTED: this machine cannot provide bubblewrap");
        return;
    };
    for outside in [&mut lost, &mut other] {
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
    assert!(!has_ended(&left, 1), "bubblewrap ends by itself now: what ends its orphans can go");

    machine.sandbox.status().await;
    assert!(has_ended(&left, 20));
    // Neither another daemon's process nor one whose daemon is running is killed.
    assert!(!has_ended(&others, 0) && !has_ended(&kept, 0));
    pidfd_send_signal(&others, Signal::KILL).unwrap();
    pidfd_send_signal(&kept, Signal::KILL).unwrap();
}
