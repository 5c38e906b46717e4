//! Handle of a sandboxed program.

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

/// Time limit for the init's cleanup, after which everything is killed from outside.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_REPORT_BYTES: u64 = 64 << 10;

/// Long-lived sandboxed program with its three streams. It ends, with everything that it started, when this is dropped,
/// when it is killed, or when the daemon ends in any way.
#[derive(Debug)]
pub struct SandboxedChild {
    /// Program's standard input; dropping it closes the input.
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
    /// Closing it asks the init to end everything inside.
    control: Mutex<Option<OwnedFd>>,
    stop: Notify,
    is_stopped: AtomicBool,
    ended: OnceCell<Ended>,
    /// Retained until the end; dropped with this.
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

    /// Returns the process id of the sandbox, not of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.child.pid()
    }

    /// Returns the tier that was active when the program started.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Kills the program and everything that it started. Returns immediately; [`Self::wait`] waits for the end. No
    /// effect if it has already ended.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Waits until the program and everything that it started have ended. Cancel-safe; may be called repeatedly.
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
            () = self.cleanup_timeout() => {
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
            None => Ended::NotStarted { reason: format!("its sandbox {outcome}") },
        }
    }

    /// Waits until the cleanup time after a stop request has passed.
    async fn cleanup_timeout(&self) {
        self.stop.notified().await;
        // The wait may be cancelled and restarted; the stop request must persist.
        self.stop.notify_one();
        tokio::time::sleep(CLEANUP_TIMEOUT).await;
    }

    async fn report(&self) -> Option<Report> {
        let mut report = self.report.lock().await;
        let (from, text) = &mut *report;
        let mut from = from.take(MAX_REPORT_BYTES);
        // The writer has ended or is ending; a report that does not arrive counts as missing.
        let _ = tokio::time::timeout(CLEANUP_TIMEOUT, from.read_to_end(text)).await;
        serde_json::from_slice(text).ok()
    }
}

impl Drop for SandboxedChild {
    fn drop(&mut self) {
        if self.running.ended.initialized() {
            return;
        }
        self.running.kill();
        // Graceful if a runtime exists; otherwise the last owner kills the sandbox process.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let running = Arc::clone(&self.running);
            runtime.spawn(async move {
                running.wait().await;
            });
        }
    }
}
