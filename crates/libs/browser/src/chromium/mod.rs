//! Chromium process, from its start to its removal.
//!
//! Invariants
//! - Chromium is a separate process group. It is killed when this handle is dropped, when it stops responding, and when
//!   the daemon dies. Its directory is removed afterwards.
//! - Before an unresponsive Chromium is killed, its busiest renderer is killed alone, since it is usually the cause.
//! - A root daemon runs it as a dedicated user. Chromium's sandbox is on unless the options disable it.

mod busy;
mod find;
mod flags;
mod folder;
mod user;

use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agentd_process::{Child, SpawnRequest, Spawner, Stream};
use parking_lot::Mutex;
use rustix::process::{Pid, setpriority_pgrp};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cdp::{CdpError, Connection, Observer};
use crate::{BrowserError, BrowserOptions};
pub use find::find_chromium;
pub(crate) use folder::Folder;
pub use folder::remove_abandoned;

const START_LIMIT: Duration = Duration::from_secs(30);
/// Interval between health checks.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Nice value of a Chromium with lowered priority.
const LOW_PRIORITY: i32 = 5;
/// Maximum pipe size that the kernel permits for an unprivileged user.
const PIPE_SIZE_BYTES: usize = 1 << 20;
/// Maximum number of bytes retained from the end of its standard error.
const MAX_STDERR_BYTES: usize = 8 << 10;
/// Shell command that connects the pipes to descriptors 3 and 4, which Chromium uses for the protocol.
const REDIRECT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

#[derive(Debug)]
pub(crate) struct Chromium {
    pub(crate) connection: Connection,
    pub(crate) folder: Arc<Folder>,
    /// Version as reported by Chromium, for example `Chrome/156.0.0.0`.
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// Ends the process when taken or dropped.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// Task that finishes when the process and its directory are gone.
    watching: tokio::sync::Mutex<JoinHandle<()>>,
}

#[derive(Debug, Deserialize)]
struct Version {
    product: String,
}

impl Chromium {
    pub(crate) async fn start(
        options: &BrowserOptions,
        spawner: &Spawner,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, BrowserError> {
        let program = find_chromium(options.executable.as_deref())?;
        let user = user::dedicated_user()?;
        let parent = options.temporary_directory.clone();
        let folder = tokio::task::spawn_blocking(move || Folder::create(&parent, user))
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|error| BrowserError::Unavailable(format!("failed to create its temporary folder: {error}")))?;
        let folder = Arc::new(folder);
        let request = request(options, &program, &folder, user)?;
        let mut child = spawner
            .spawn(request)
            .await
            .map_err(|error| BrowserError::Unavailable(format!("failed to start `{}`: {error}", program.display())))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(BrowserError::Unavailable("the pipes of Chromium are missing".to_owned()));
        };
        // Trees and screenshots are megabytes: a larger pipe saves context switches. A smaller one works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_SIZE_BYTES);
        let messages = Arc::new(Mutex::new(Vec::new()));
        let reading = tokio::spawn(collect_stderr(stderr, Arc::clone(&messages)));
        let connection = Connection::start(stdout, stdin, observer);
        let pid = child.pid();
        let (stop, stopped) = oneshot::channel();
        let response_timeout = options.limits.response_timeout;
        let watching = tokio::spawn(watch(child, connection.clone(), stopped, Arc::clone(&folder), response_timeout));
        match connection.call::<Version>(None, "Browser.getVersion", json!({}), START_LIMIT).await {
            Ok(version) => Ok(Self {
                connection,
                folder,
                version: version.product,
                pid,
                stop: Mutex::new(Some(stop)),
                watching: tokio::sync::Mutex::new(watching),
            }),
            Err(error) => {
                drop(stop);
                // Read its standard error to the end, which comes with the end of the process.
                let _ = tokio::time::timeout(HEARTBEAT_INTERVAL, reading).await;
                Err(BrowserError::Unavailable(start_failure_reason(&error, &messages.lock())))
            }
        }
    }

    /// Ends the process and waits until it and its directory are gone.
    pub(crate) async fn end(&self) {
        self.connection.end("it was closed");
        self.stop.lock().take();
        let mut watching = self.watching.lock().await;
        // A finished task must not be polled again.
        if !watching.is_finished()
            && let Err(error) = (&mut *watching).await
        {
            tracing::error!(%error, "Chromium supervision task failed");
        }
    }

    /// Lowers the priority of the process group below other programs.
    pub(crate) fn lower_priority(&self) {
        let leader = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| !self.is_ended());
        if let Err(error) = leader.map_or(Ok(()), |leader| setpriority_pgrp(Some(leader), LOW_PRIORITY)) {
            tracing::debug!(%error, "failed to lower Chromium priority");
        }
    }

    /// Whether it has ended or is about to be killed.
    pub(crate) fn is_ended(&self) -> bool {
        self.connection.is_ended()
    }
}

fn request(
    options: &BrowserOptions,
    program: &Path,
    folder: &Folder,
    user: Option<u32>,
) -> Result<SpawnRequest, BrowserError> {
    let profile = folder.profile();
    let mut request = SpawnRequest::new("/bin/sh");
    request.arguments = vec!["-c".into(), REDIRECT.into(), "sh".into(), program.into()];
    request.arguments.extend(flags::arguments(options, &profile));
    request.environment = vec![
        ("HOME".into(), profile.clone().into()),
        ("TMPDIR".into(), profile.clone().into()),
        ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
        ("LANG".into(), "C.UTF-8".into()),
        // Prevents a search for a desktop bus, which does not exist here.
        ("DBUS_SESSION_BUS_ADDRESS".into(), "disabled:".into()),
        ("DBUS_SYSTEM_BUS_ADDRESS".into(), "disabled:".into()),
    ];
    if !options.headless {
        let screen: Vec<(OsString, OsString)> = ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"]
            .into_iter()
            .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
            .collect();
        if !screen.iter().any(|(name, _)| name == "DISPLAY" || name == "WAYLAND_DISPLAY") {
            return Err(BrowserError::Unavailable(
                "no display found for a visible browser; set `headless` to true".to_owned(),
            ));
        }
        request.environment.extend(screen);
    }
    request.current_directory = Some(profile);
    (request.stdin, request.stdout, request.stderr) = (Stream::Pipe, Stream::Pipe, Stream::Pipe);
    request.before_exec = Some(user::before_exec(user, &options.limits));
    Ok(request)
}

/// Ends the connection when the process exits, and the process when its handle is dropped or it stops responding.
async fn watch(
    child: Child,
    connection: Connection,
    mut stopped: oneshot::Receiver<()>,
    folder: Arc<Folder>,
    response_timeout: Duration,
) {
    let reason = tokio::select! {
        outcome = child.wait() => format!("its process {outcome}"),
        // Also resolves when the handle is dropped.
        _ = &mut stopped => "it was closed".to_owned(),
        reason = heartbeat(&connection, response_timeout, child.pid()) => reason,
    };
    connection.end(&reason);
    child.kill();
    child.wait().await;
    tracing::debug!(%reason, "Chromium ended");
    // Removing a profile takes thousands of file system calls.
    let removed = tokio::task::spawn_blocking(move || folder.remove()).await;
    if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
        tracing::warn!(%error, "failed to remove temporary browser directory");
    }
}

async fn heartbeat(connection: &Connection, response_timeout: Duration, pid: u32) -> String {
    // During startup it may be slow; `start` reports a failure.
    let _ = connection.call::<IgnoredAny>(None, "Browser.getVersion", json!({}), START_LIMIT).await;
    loop {
        tokio::time::sleep(HEARTBEAT_INTERVAL.min(response_timeout)).await;
        let mut alive = pin!(connection.call::<IgnoredAny>(None, "Browser.getVersion", json!({}), response_timeout));
        let answered = match tokio::time::timeout(response_timeout / 2, &mut alive).await {
            Ok(answered) => answered,
            Err(_) => {
                busy::end_busiest_page(pid).await;
                alive.await
            }
        };
        if let Err(error) = answered {
            return format!("it does not respond: {error}");
        }
    }
}

/// Drains standard error, so that Chromium is never blocked, and retains its end.
async fn collect_stderr(mut stderr: pipe::Receiver, messages: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        let mut kept = messages.lock();
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(MAX_STDERR_BYTES);
        kept.drain(..excess);
    }
}

fn start_failure_reason(error: &CdpError, messages: &[u8]) -> String {
    let messages = String::from_utf8_lossy(messages);
    if messages.contains("No usable sandbox") || messages.contains("without --no-sandbox") {
        return "Chromium cannot create its sandbox; allow unprivileged user namespaces, or install \
                Debian's chromium-sandbox"
            .to_owned();
    }
    let last = messages.lines().rev().find(|line| !line.trim().is_empty() && !line.contains("dbus"));
    format!("Chromium failed to start: {}", last.map_or_else(|| error.to_string(), str::to_owned))
}
