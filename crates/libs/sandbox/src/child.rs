//! A program in its box, from outside.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_process::Child;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, OnceCell};

use crate::host::launch::{Launched, Resources};
use crate::plan::Report;
use crate::{Ended, Tier};

/// How long the init may take to clear up before everything is ended from outside.
const CLEAR_UP: Duration = Duration::from_secs(3);
const MAX_REPORT_BYTES: u64 = 64 << 10;

/// A long-lived program in a box, with its three streams. It ends, with everything that it
/// started, when this is dropped, when it is killed, and when the daemon ends in any way.
#[derive(Debug)]
pub struct SandboxedChild {
    /// Taking and dropping it ends the program's standard input.
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
    tier: Tier,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    report: tokio::sync::Mutex<(pipe::Receiver, Vec<u8>)>,
    /// Closing it is the wish that everything inside ends.
    control: Mutex<Option<OwnedFd>>,
    stop: Notify,
    is_stopped: AtomicBool,
    ended: OnceCell<Ended>,
    /// Kept until the end, and a little longer: dropped with this.
    _resources: Resources,
}

impl SandboxedChild {
    pub(crate) fn new(launched: Launched, tier: Tier) -> Self {
        let Launched { mut child, report, control, resources } = launched;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = Running {
            child,
            report: tokio::sync::Mutex::new((report, Vec::new())),
            control: Mutex::new(Some(control)),
            stop: Notify::new(),
            is_stopped: AtomicBool::new(false),
            ended: OnceCell::new(),
            _resources: resources,
        };
        Self { stdin, stdout, stderr, tier, running: Arc::new(running) }
    }

    /// The process that the box is made of, not the program's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.child.pid()
    }

    /// The tier that was in force when it started.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Ends the program and everything that it started. Returns at once; [`Self::wait`] waits for
    /// it. Harmless when it has ended.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Waits until the program and everything that it started have ended. Cancel-safe, and may be
    /// called again.
    pub async fn wait(&self) -> Ended {
        self.running.wait().await
    }
}

impl Running {
    fn kill(&self) {
        self.is_stopped.store(true, Ordering::Release);
        drop(self.control.lock().take());
        self.stop.notify_one();
    }

    async fn wait(&self) -> Ended {
        self.ended.get_or_init(|| self.until_end()).await.clone()
    }

    async fn until_end(&self) -> Ended {
        let outcome = tokio::select! {
            outcome = self.child.wait() => outcome,
            () = self.overdue() => {
                self.child.kill();
                self.child.wait().await
            }
        };
        match self.report().await {
            Some(Report::Exited { code }) => Ended::Exited { code },
            Some(Report::Signaled { signal }) => Ended::Signaled { signal },
            Some(Report::NotStarted { reason }) => Ended::NotStarted { reason },
            Some(Report::MemoryLimit { limit }) => Ended::MemoryLimit { limit },
            Some(Report::ProcessLimit) => Ended::ProcessLimit,
            Some(Report::DiskLimit) => Ended::DiskLimit,
            Some(Report::FileLimit) => Ended::FileLimit,
            Some(Report::WorkspaceBytes { limit }) => Ended::WorkspaceBytes { limit },
            Some(Report::WorkspaceFiles { limit }) => Ended::WorkspaceFiles { limit },
            Some(Report::DiskShort) => Ended::DiskShort,
            Some(Report::Stopped) => Ended::Stopped,
            None if self.is_stopped.load(Ordering::Acquire) => Ended::Stopped,
            None => Ended::NotStarted { reason: format!("the box around it {outcome}") },
        }
    }

    /// Some time after the wish that it ends.
    async fn overdue(&self) {
        self.stop.notified().await;
        // The wait may be cancelled and begun again: then the wish is still there.
        self.stop.notify_one();
        tokio::time::sleep(CLEAR_UP).await;
    }

    async fn report(&self) -> Option<Report> {
        let mut report = self.report.lock().await;
        let (from, text) = &mut *report;
        let mut from = from.take(MAX_REPORT_BYTES);
        // Its writer has ended, or is ending; a report that does not come is none.
        let _ = tokio::time::timeout(CLEAR_UP, from.read_to_end(text)).await;
        serde_json::from_slice(text).ok()
    }
}

impl Drop for SandboxedChild {
    fn drop(&mut self) {
        if self.running.ended.initialized() {
            return;
        }
        self.running.kill();
        // In order when there is a runtime; else the last owner kills the box's process.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let running = Arc::clone(&self.running);
            runtime.spawn(async move {
                running.wait().await;
            });
        }
    }
}
