//! Browser service: one session that is started on demand.

mod act;
mod auth_states;
mod cookies;
mod downloads;
mod environment;
mod inspection;
mod permits;
mod recording;
mod recording_video;
mod recordings;
mod replay;
mod screen_recording;
mod session;
mod tabs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_browser::{BrowserOptions, Environment};
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::tools::Tools;
use agentd_net::PolicyHandle;
use agentd_process::Spawner;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::error::BrowserError;
use super::files::RecordingFiles;
use super::settings::BrowserSettings;

pub use act::PerformedAction;
pub(super) use downloads::DownloadEntry;
use downloads::Downloads;
pub(super) use environment::invalid;
pub(super) use inspection::{Picture, Status};
use permits::Permits;
pub(super) use permits::ViewerPermit;
use recording::Recordings;
pub(super) use replay::{ReplayedStep, Report, StepFailure};
pub(super) use screen_recording::Video;
pub use session::Session;
pub(super) use tabs::ListedTab;

/// Time without use after which the session is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Dependencies of the browser.
#[derive(Debug)]
pub struct BrowserDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub tools: Tools,
    pub spawner: Spawner,
    /// Path of Chromium; searched if `None`.
    pub executable: Option<PathBuf>,
}

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    /// Enforces the limits of workspaces.
    tools: Tools,
    /// Network policy of pages, according to the current settings.
    policy: PolicyHandle,
    spawner: Spawner,
    executable: Option<PathBuf>,
    current: Mutex<Option<Arc<Session>>>,
    /// Serializes starts and ends of the session.
    change_lock: tokio::sync::Mutex<()>,
    /// Whether the session was restarted and no response has reported it yet.
    is_restarted: AtomicBool,
    started: Arc<Notify>,
    /// Number of starts, for clients that wait for a session.
    starts: watch::Sender<u64>,
    permits: Permits,
    downloads: Downloads,
    /// Environment of the current or the next session; it survives a restart of Chromium.
    environment: Mutex<Arc<Environment>>,
    recordings: Recordings,
}

/// Browser service. Cheap to clone.
#[derive(Clone)]
pub struct Browser(Arc<Inner>);

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("executable", &self.0.executable).finish_non_exhaustive()
    }
}

impl Browser {
    /// Does not start a browser.
    pub fn new(context: &AppContext, dependencies: BrowserDependencies) -> Detached<Self> {
        let BrowserDependencies { settings, agents, tools, spawner, executable } = dependencies;
        let policy =
            settings.derived_policy(|settings| settings.section::<BrowserSettings>().net_policy(&settings.security()));
        Detached::new(Self(Arc::new(Inner {
            context: context.clone(),
            settings,
            downloads: Downloads::new(agents.clone(), tools.clone(), Arc::clone(&context.data_dir)),
            agents,
            tools,
            policy,
            spawner,
            executable,
            current: Mutex::new(None),
            change_lock: tokio::sync::Mutex::default(),
            is_restarted: AtomicBool::new(false),
            started: Arc::default(),
            starts: watch::Sender::new(0),
            permits: Permits::default(),
            environment: Mutex::default(),
            recordings: Recordings::new(RecordingFiles::new(Arc::clone(&context.data_dir))),
        })))
    }

    /// Returns the running session, or starts one.
    ///
    /// # Errors
    /// Chromium is missing or cannot be started.
    pub async fn session(&self) -> Result<Arc<Session>, BrowserError> {
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        let _guard = self.0.change_lock.lock().await;
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        if self.0.context.draining.is_cancelled() {
            let reason = "the daemon is shutting down".to_owned();
            return Err(agentd_browser::BrowserError::Unavailable(reason).into());
        }
        let ended = self.0.current.lock().take();
        if let Some(ended) = ended {
            self.0.is_restarted.store(true, Ordering::Relaxed);
            self.end(&ended).await;
        }
        let session = Arc::new(self.start().await?);
        *self.0.current.lock() = Some(Arc::clone(&session));
        self.0.started.notify_one();
        self.0.starts.send_modify(|count| *count += 1);
        let (browser, started) = (self.clone(), Arc::clone(&session));
        tokio::spawn(async move { browser.0.downloads.move_to_workspaces(&started).await });
        Ok(session)
    }

    async fn start(&self) -> Result<Session, BrowserError> {
        let inner = &self.0;
        let options = BrowserOptions {
            executable: inner.executable.clone(),
            headless: self.settings().headless,
            download_directory: Some(inner.downloads.folder()?),
            ..BrowserOptions::default()
        };
        Session::start(&inner.context, inner.policy.clone(), inner.spawner.clone(), options, self.environment()).await
    }

    /// Returns the running session.
    ///
    /// # Errors
    /// No session is running.
    pub fn running(&self) -> Result<Arc<Session>, BrowserError> {
        self.usable().ok_or(BrowserError::NotRunning)
    }

    /// Ends the session; returns whether there was one.
    pub async fn close(&self) -> bool {
        let _guard = self.0.change_lock.lock().await;
        self.0.is_restarted.store(false, Ordering::Relaxed);
        *self.0.environment.lock() = Arc::default();
        let session = self.0.current.lock().take();
        match session {
            Some(session) => {
                self.end(&session).await;
                true
            }
            None => false,
        }
    }

    async fn end(&self, session: &Session) {
        session.end().await;
        self.0.downloads.archive(session);
    }

    /// Returns downloads, newest first.
    #[must_use]
    pub fn downloads(&self) -> Vec<DownloadEntry> {
        let session = self.0.current.lock().clone();
        self.0.downloads.list(session.as_deref())
    }

    fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.0.environment.lock())
    }

    /// Returns the session and marks it as used.
    fn usable(&self) -> Option<Arc<Session>> {
        let session = self.live()?;
        session.mark_used(self.now());
        Some(session)
    }

    /// Returns the session if Chromium runs in the configured mode.
    fn live(&self) -> Option<Arc<Session>> {
        let session = self.0.current.lock().clone()?;
        (!session.is_ended() && session.is_headless() == self.settings().headless).then_some(session)
    }

    /// Returns why no browser can be started, as far as this is known without trying.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        agentd_browser::find_chromium(self.0.executable.as_deref()).err().map(|error| error.to_string())
    }

    /// Returns the current settings.
    #[must_use]
    pub fn settings(&self) -> Arc<BrowserSettings> {
        self.0.settings.section()
    }

    pub(super) fn all_settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.0.tools
    }

    pub(super) fn settings_changes(&self) -> watch::Receiver<u64> {
        self.0.settings.watch()
    }

    pub(super) fn draining(&self) -> &CancellationToken {
        &self.0.context.draining
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.context.clock.now()
    }

    /// Returns when the session will be idle for too long; `None` without a session.
    pub(super) fn idle_at(&self) -> Option<Timestamp> {
        self.0.current.lock().as_ref().map(|session| session.last_used() + IDLE_TIMEOUT)
    }

    /// Notified on each start.
    pub(super) fn started(&self) -> Arc<Notify> {
        Arc::clone(&self.0.started)
    }
}
