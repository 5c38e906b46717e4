//! Child processes must not outlive the daemon, even if it is killed.

use agentd_process::{SpawnRequest, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::AsyncReadExt;

use crate::child;

#[tokio::test]
async fn child_dies_with_a_killed_daemon() {
    let options = child::options("parent");
    let (program, arguments) = options.worker_command;
    let request = SpawnRequest { program, arguments, stdout: Stream::Pipe, ..SpawnRequest::default() };
    let mut daemon = options.spawner.spawn(request).await.unwrap();
    let mut line = [0; 32];
    let length = daemon.stdout.as_mut().unwrap().read(&mut line).await.unwrap();
    let grandchild: i32 = std::str::from_utf8(&line[..length]).unwrap().trim().parse().unwrap();
    let grandchild = pidfd_open(Pid::from_raw(grandchild).unwrap(), PidfdFlags::empty()).unwrap();

    // The daemon has its own process group, so only the daemon is killed.
    daemon.kill();
    daemon.wait().await;
    let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(&grandchild, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(ended, 1, "the child is still there");
}
