//! Thread that starts and reaps children.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use tokio::sync::oneshot;

use crate::exit::{Exit, ExitOutcome};
use crate::request::{SpawnRequest, Stream};

/// Started process whose pipes are not yet registered with a runtime.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: u32,
    pub(crate) exit: Arc<Exit>,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

#[derive(Debug)]
pub(crate) enum Job {
    Spawn { request: Box<SpawnRequest>, answer: oneshot::Sender<io::Result<Spawned>> },
    Stop,
}

#[derive(Debug)]
struct Shared {
    /// Bounded by the callers: each waits for its answer.
    jobs: Mutex<VecDeque<Job>>,
    wake: OwnedFd,
}

/// Handle of the thread. Dropping it ends the thread once no child remains.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) fn start() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { jobs: Mutex::new(VecDeque::new()), wake });
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("spawner".to_owned()).spawn(move || run(&for_thread))?;
        Ok(Self(shared))
    }

    pub(crate) fn submit(&self, job: Job) {
        self.0.jobs.lock().push_back(job);
        // Fails only if the counter is full, in which case the thread is already awake.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.submit(Job::Stop);
    }
}

struct Running {
    pidfd: OwnedFd,
    exit: Arc<Exit>,
}

fn run(shared: &Shared) {
    let mut children: Vec<Running> = Vec::new();
    let mut stopping = false;
    while !(stopping && children.is_empty()) {
        let mut descriptors = vec![PollFd::new(&shared.wake, PollFlags::IN)];
        descriptors.extend(children.iter().map(|child| PollFd::new(&child.pidfd, PollFlags::IN)));
        // Interrupted or out of memory: retry.
        if poll(&mut descriptors, None).is_err() {
            continue;
        }
        let ended: Vec<bool> = descriptors[1..].iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        let mut at = 0;
        children.retain(|child| {
            at += 1;
            !(ended[at - 1] && reap(child))
        });
        let mut counter = [0; 8];
        let _ = rustix::io::read(&shared.wake, &mut counter);
        loop {
            let Some(job) = shared.jobs.lock().pop_front() else { break };
            match job {
                Job::Stop => stopping = true,
                Job::Spawn { request, answer } => {
                    let started = start(&request).map(|(spawned, running)| {
                        children.push(running);
                        spawned
                    });
                    if let Err(Ok(unwanted)) = answer.send(started) {
                        unwanted.exit.kill_group();
                    }
                }
            }
        }
    }
}

/// Reaps an ended child; returns false if it is still running.
fn reap(child: &Running) -> bool {
    let peek = waitid(
        WaitId::PidFd(child.pidfd.as_fd()),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    );
    if matches!(peek, Ok(None)) {
        return false;
    }
    child.exit.finish(|| {
        let status = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        match status {
            Ok(Some(status)) => ExitOutcome { code: status.exit_status(), signal: status.terminating_signal() },
            _ => ExitOutcome { code: None, signal: None },
        }
    });
    true
}

#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "this is the one place that starts processes; pre_exec is how a child is tied to its parent"
)]
fn start(request: &SpawnRequest) -> io::Result<(Spawned, Running)> {
    let mut command = Command::new(&request.program);
    command
        .args(&request.arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .stdin(stdio(request.stdin))
        .stdout(stdio(request.stdout))
        .stderr(stdio(request.stderr))
        .process_group(0);
    if let Some(directory) = &request.current_directory {
        command.current_dir(directory);
    }
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    let before_exec = request.before_exec.clone();
    let inherited: Vec<RawFd> = request.descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    // SAFETY: the closure runs between fork and exec. It makes only system calls that are safe there (prctl, getppid,
    // close_range, fcntl, _exit), allocates nothing and takes no lock; the creator of `before_exec` guarantees the same
    // for that step.
    unsafe {
        command.pre_exec(move || {
            // Must come first, because a change of the user resets the parent death signal.
            if let Some(before_exec) = &before_exec {
                before_exec.run()?;
            }
            die_with_parent(parent)?;
            inherit_descriptors(&inherited)
        });
    }
    let mut child = command.spawn()?;
    let pid = child.id();
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(error) => {
            // Without a pidfd, the child's end could not be detected.
            child.kill()?;
            child.wait()?;
            return Err(error.into());
        }
    };
    let exit = Arc::new(Exit::new(raw));
    let spawned = Spawned {
        pid,
        exit: Arc::clone(&exit),
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    Ok((spawned, Running { pidfd, exit }))
}

fn stdio(stream: Stream) -> Stdio {
    match stream {
        Stream::Null => Stdio::null(),
        Stream::Pipe => Stdio::piped(),
    }
}

/// Runs in the child, before its program.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn die_with_parent(parent: i32) -> io::Result<()> {
    // SAFETY: system calls with plain numbers. Descriptors are marked close-on-exec instead of closed, since one of
    // them reports a failed exec.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before the call above; the child would then never be killed.
        if libc::getppid() != parent {
            libc::_exit(127);
        }
        let close_on_exec = libc::c_uint::try_from(libc::CLOSE_RANGE_CLOEXEC).unwrap_or(4);
        if libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, close_on_exec) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Clears close-on-exec for these descriptors. Runs in the child, before its program.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn inherit_descriptors(descriptors: &[RawFd]) -> io::Result<()> {
    for descriptor in descriptors {
        // SAFETY: a system call with plain numbers.
        if unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
