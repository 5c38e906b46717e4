//! First process inside a sandbox. It starts the program, confines it, monitors the whole process tree and ends it.
//!
//! It is the daemon's own binary under a hidden subcommand, so nothing else needs to be installed and both always agree
//! on the plan. In the bubblewrap tier it is process 1 of its namespace: nothing inside can signal it, and everything
//! inside ends with it. In the other tiers it consists of two processes: a guard, which is the daemon's child, and the
//! supervisor, which adopts every orphan of the program and outlives the guard just long enough to kill them.
//!
//! Invariants: the program is confined before its first instruction; it receives only the three standard descriptors;
//! after a regular end of the init, no process that it started remains.
//!
//! Out of scope: time limits and output limits, which the daemon enforces from outside.

mod confine;
mod descriptors;
mod disk;
mod forward;
mod group;
mod kernel;
mod landlocked;
mod meter;
mod pace;
mod probe;
mod supervise;
mod syscalls;
pub(crate) mod tree;
mod workspace;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitOptions};

use self::descriptors::{adopt, release_streams};
use self::group::{Events, GroupEntry};
use crate::Tier;
use crate::plan::{Plan, Report};

pub(crate) use probe::{DONE as PROBE_DONE, REACHED as PROBE_REACHED};

pub(crate) const RUN: &str = "run";
pub(crate) const HOLD_USER_NAMESPACE: &str = "hold-user-namespace";

/// Runs the hidden subcommand. `arguments` are those after its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ! {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let done = match words.as_slice() {
        [RUN, descriptor] => match descriptor.parse() {
            Ok(descriptor) => run(descriptor),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        },
        [HOLD_USER_NAMESPACE] => hold_user_namespace(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    if let Err(error) = done {
        // The daemon reads and logs it.
        let _ = writeln!(io::stderr(), "sandbox: {error}");
        std::process::exit(125);
    }
    std::process::exit(0)
}

fn run(plan_descriptor: i32) -> io::Result<()> {
    let mut plan_file = File::from(adopt(plan_descriptor)?);
    plan_file.rewind()?;
    let mut plan: Plan = serde_json::from_reader(io::BufReader::new(plan_file))?;
    let mut report_to = File::from(adopt(plan.report_descriptor)?);
    let control = adopt(plan.control_descriptor)?;
    let (entrances, events) = plan.group.take().map(group::open).transpose()?.unzip();
    let guard = match plan.tier {
        Tier::Bubblewrap => None,
        Tier::Landlock | Tier::None => match split()? {
            Split::Guard(supervisor, alive) => {
                drop((report_to, control, entrances, events));
                return guard_until_end(supervisor, alive);
            }
            Split::Supervisor(guard) => Some(guard),
        },
    };
    let report = supervised(plan, &control, guard.as_ref(), entrances.unwrap_or_default(), events);
    let mut line = serde_json::to_vec(&report)?;
    line.push(b'\n');
    report_to.write_all(&line)
}

fn supervised(
    plan: Plan,
    control: &OwnedFd,
    guard: Option<&OwnedFd>,
    entrances: GroupEntry,
    events: Option<Events>,
) -> Report {
    let not_started = |error: io::Error| Report::NotStarted { reason: error.to_string() };
    raise_oom_score();
    let meter = match meter::Meter::start(&plan, events) {
        Ok(meter) => meter,
        Err(error) => return not_started(error),
    };
    if plan.tier != Tier::None
        && let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        return not_started(error.into());
    }
    let forwarder = match plan.proxy_socket.clone().map(forward::Forwarder::bind).transpose() {
        Ok(forwarder) => forwarder,
        Err(error) => return not_started(error),
    };
    let port = forwarder.as_ref().map(forward::Forwarder::port);
    let program = match start(&plan, port, entrances) {
        Ok(program) => program,
        Err(error) => {
            return Report::NotStarted { reason: format!("{}: {error}", plan.program.to_string_lossy()) };
        }
    };
    if let Some(forwarder) = forwarder {
        forwarder.serve();
    }
    let report = supervise::until_end(program, control, guard, meter);
    tree::end_all(plan.tier);
    report
}

/// Starts the confined program; afterwards this process has none of its streams open.
#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "inside the box there is no spawner; one thread runs, so its fork may do anything"
)]
fn start(plan: &Plan, proxy_port: Option<u16>, entrances: GroupEntry) -> io::Result<Pid> {
    let mut confinement = confine::Confinement::prepare(plan, entrances)?;
    let probe = plan.probe.clone();
    let mut command = Command::new(&plan.program);
    command
        .args(&plan.arguments)
        .env_clear()
        .envs(plan.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&plan.directory)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    if let Some(port) = proxy_port {
        command.envs(forward::variables(port));
    }
    // SAFETY: this process has one thread, so its fork is an ordinary process.
    unsafe {
        command.pre_exec(move || {
            confinement.apply()?;
            if let Some(probe) = &probe {
                probe::run(probe)?;
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    release_streams()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Makes the sandbox the kernel's preferred victim when memory runs out. May be refused.
fn raise_oom_score() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "900");
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
}

enum Split {
    /// With the supervisor's id and the end of the pipe that signals the end of the guard.
    Guard(Pid, OwnedFd),
    /// With the end of the pipe that hangs up when the guard ends.
    Supervisor(OwnedFd),
}

/// Splits into two processes: killing the guard does not kill the supervisor, which then cleans up.
#[allow(unsafe_code, reason = "there is no safe fork")]
fn split() -> io::Result<Split> {
    let (hangs_up, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            drop(alive);
            rustix::process::setsid()?;
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            Ok(Split::Supervisor(hangs_up))
        }
        supervisor => {
            let supervisor = Pid::from_raw(supervisor).filter(|pid| !pid.is_init());
            supervisor.map(|supervisor| Split::Guard(supervisor, alive)).ok_or_else(io::Error::last_os_error)
        }
    }
}

fn guard_until_end(supervisor: Pid, alive: OwnedFd) -> io::Result<()> {
    release_streams()?;
    loop {
        match rustix::process::waitpid(Some(supervisor), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            _ => {
                drop(alive);
                return Ok(());
            }
        }
    }
}

/// Provides a user namespace to the daemon, which writes its maps from outside and opens it.
#[allow(unsafe_code, reason = "leaving a namespace is unsafe for processes with threads")]
fn hold_user_namespace() -> io::Result<()> {
    // SAFETY: a single thread, no descriptors shared with other processes.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER)? };
    io::stdout().write_all(b"+")?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
