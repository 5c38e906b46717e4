//! One running Chromium, from its start to its removal.
//!
//! Invariants: it is a process group of its own and is killed as one when this handle is dropped,
//! when it stops answering, and when the daemon dies; its folder is removed once it is gone. Before that,
//! the page that works most is ended alone: mostly it is what keeps the browser from answering. As root
//! the daemon gives it a user of its own; its own sandbox is on unless the options say otherwise.

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
/// How often it is asked whether it is there.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Niceness of a Chromium that gives way to other programs.
const LOW_PRIORITY: i32 = 5;
/// The most that the kernel gives an ordinary user.
const PIPE_BYTES: usize = 1 << 20;
/// What is kept of what it writes about itself.
const KEPT_MESSAGES: usize = 8 << 10;
/// Chromium speaks through descriptors 3 and 4; the shell puts the pipes there.
const REDIRECT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

#[derive(Debug)]
pub(crate) struct Chromium {
    pub(crate) connection: Connection,
    pub(crate) folder: Arc<Folder>,
    /// As it names itself, `Chrome/156.0.0.0`.
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// Taking or dropping it ends the process.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// Ends when the process and its folder are gone.
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
        let user = user::own_user()?;
        let parent = options.temporary_directory.clone();
        let folder = tokio::task::spawn_blocking(move || Folder::create(&parent, user))
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|error| BrowserError::Unavailable(format!("its temporary folder could not be made: {error}")))?;
        let folder = Arc::new(folder);
        let request = request(options, &program, &folder, user)?;
        let mut child = spawner.spawn(request).await.map_err(|error| {
            BrowserError::Unavailable(format!("`{}` could not be started: {error}", program.display()))
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(BrowserError::Unavailable("its pipes are missing".to_owned()));
        };
        // Trees and pictures are megabytes: fewer turns between two processes. A smaller pipe works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES);
        let messages = Arc::new(Mutex::new(Vec::new()));
        let reading = tokio::spawn(keep_last(stderr, Arc::clone(&messages)));
        let connection = Connection::start(stdout, stdin, observer);
        let pid = child.pid();
        let (stop, stopped) = oneshot::channel();
        let answer_time = options.limits.answer_time;
        let watching = tokio::spawn(watch(child, connection.clone(), stopped, Arc::clone(&folder), answer_time));
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
                // What it said last is read to its end, which comes with the end of the process.
                let _ = tokio::time::timeout(HEARTBEAT, reading).await;
                Err(BrowserError::Unavailable(why_not_started(&error, &messages.lock())))
            }
        }
    }

    /// Ends it, and waits until nothing is left of it.
    pub(crate) async fn end(&self) {
        self.connection.end("it was closed");
        self.stop.lock().take();
        let mut watching = self.watching.lock().await;
        // One that has ended and was waited for may not be asked again.
        if !watching.is_finished()
            && let Err(error) = (&mut *watching).await
        {
            tracing::error!(%error, "the task that ends Chromium failed");
        }
    }

    /// Lets other programs of the machine go first from now on.
    pub(crate) fn lower_priority(&self) {
        let leader = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| !self.is_ended());
        if let Err(error) = leader.map_or(Ok(()), |leader| setpriority_pgrp(Some(leader), LOW_PRIORITY)) {
            tracing::debug!(%error, "priority of Chromium not lowered");
        }
    }

    /// Whether it has ended, or is about to be killed.
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
        // There is no desktop to ask; a bus that is not there is looked for otherwise.
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
                "there is no screen for a visible browser; use `headless`".to_owned(),
            ));
        }
        request.environment.extend(screen);
    }
    request.current_directory = Some(profile);
    (request.stdin, request.stdout, request.stderr) = (Stream::Pipe, Stream::Pipe, Stream::Pipe);
    request.before_exec = Some(user::before_exec(user, &options.limits));
    Ok(request)
}

/// Ends the connection with the process and the process with its handle; kills one that hangs.
async fn watch(
    child: Child,
    connection: Connection,
    mut stopped: oneshot::Receiver<()>,
    folder: Arc<Folder>,
    answer_time: Duration,
) {
    let reason = tokio::select! {
        outcome = child.wait() => format!("its process {outcome}"),
        // Resolves when the handle is dropped as well.
        _ = &mut stopped => "it was closed".to_owned(),
        reason = heartbeat(&connection, answer_time, child.pid()) => reason,
    };
    connection.end(&reason);
    child.kill();
    child.wait().await;
    tracing::debug!(%reason, "Chromium has ended");
    // Removing a profile is thousands of calls to the file system.
    let removed = tokio::task::spawn_blocking(move || folder.remove()).await;
    if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
        tracing::warn!(%error, "the temporary folder of a browser could not be removed");
    }
}

async fn heartbeat(connection: &Connection, answer_time: Duration, pid: u32) -> String {
    // While it starts it may take its time; whoever starts it is told how that came out.
    let _ = connection.call::<IgnoredAny>(None, "Browser.getVersion", json!({}), START_LIMIT).await;
    loop {
        tokio::time::sleep(HEARTBEAT.min(answer_time)).await;
        let mut alive = pin!(connection.call::<IgnoredAny>(None, "Browser.getVersion", json!({}), answer_time));
        let answered = match tokio::time::timeout(answer_time / 2, &mut alive).await {
            Ok(answered) => answered,
            Err(_) => {
                busy::end_busiest_page(pid).await;
                alive.await
            }
        };
        if let Err(error) = answered {
            return format!("it does not answer: {error}");
        }
    }
}

/// Reads what Chromium writes about itself, so that it is never held up, and keeps the end of it.
async fn keep_last(mut stderr: pipe::Receiver, messages: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        let mut kept = messages.lock();
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(KEPT_MESSAGES);
        kept.drain(..excess);
    }
}

fn why_not_started(error: &CdpError, messages: &[u8]) -> String {
    let messages = String::from_utf8_lossy(messages);
    if messages.contains("No usable sandbox") || messages.contains("without --no-sandbox") {
        return "this machine lets Chromium have no sandbox; allow unprivileged user namespaces, or install \
                Debian's chromium-sandbox"
            .to_owned();
    }
    let last = messages.lines().rev().find(|line| !line.trim().is_empty() && !line.contains("dbus"));
    format!("Chromium did not start: {}", last.map_or_else(|| error.to_string(), str::to_owned))
}
