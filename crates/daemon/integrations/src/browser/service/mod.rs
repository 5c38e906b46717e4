//! The browser as the owner and the agents use it: one session, there when it is asked for.

mod act;
mod auth_states;
mod cookies;
mod downloads;
mod environment;
mod look;
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

pub use act::Acted;
use downloads::Downloads;
pub(super) use downloads::KeptDownload;
pub(super) use environment::invalid;
pub(super) use look::{Picture, Status};
use permits::Permits;
pub(super) use permits::ViewerPermit;
use recording::Recordings;
pub(super) use replay::{ReplayedStep, Report, StepFailure};
pub(super) use screen_recording::Video;
pub use session::Session;
pub(super) use tabs::ListedTab;

/// Without use a session is closed after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What the browser is made of.
#[derive(Debug)]
pub struct BrowserDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub tools: Tools,
    pub spawner: Spawner,
    /// The program; without one it is looked for.
    pub executable: Option<PathBuf>,
}

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    /// Knows what workspaces may hold.
    tools: Tools,
    /// What pages may reach, by the settings in force.
    policy: PolicyHandle,
    spawner: Spawner,
    executable: Option<PathBuf>,
    current: Mutex<Option<Arc<Session>>>,
    /// One start or end at a time.
    changing: tokio::sync::Mutex<()>,
    /// A session took the place of one that had ended, and no answer has said so yet.
    is_restarted: AtomicBool,
    started: Arc<Notify>,
    /// Rises with each start, for those who wait to see one.
    starts: watch::Sender<u64>,
    permits: Permits,
    downloads: Downloads,
    /// Of this session, or of the next one while there is none: it outlives a Chromium that ends, not the session.
    environment: Mutex<Arc<Environment>>,
    recordings: Recordings,
}

/// The browser. Cheap to clone.
#[derive(Clone)]
pub struct Browser(Arc<Inner>);

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("executable", &self.0.executable).finish_non_exhaustive()
    }
}

impl Browser {
    /// Starts nothing yet.
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
            changing: tokio::sync::Mutex::default(),
            is_restarted: AtomicBool::new(false),
            started: Arc::default(),
            starts: watch::Sender::new(0),
            permits: Permits::default(),
            environment: Mutex::default(),
            recordings: Recordings::new(RecordingFiles::new(Arc::clone(&context.data_dir))),
        })))
    }

    /// The session that is there, or a new one.
    ///
    /// # Errors
    /// Chromium is not there or cannot be started.
    pub async fn session(&self) -> Result<Arc<Session>, BrowserError> {
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        let _one = self.0.changing.lock().await;
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        if self.0.context.draining.is_cancelled() {
            let reason = "the daemon is going down".to_owned();
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
        tokio::spawn(async move { browser.0.downloads.hand_over(&started).await });
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

    /// The session that is there, if there is one.
    ///
    /// # Errors
    /// There is none.
    pub fn running(&self) -> Result<Arc<Session>, BrowserError> {
        self.usable().ok_or(BrowserError::NotRunning)
    }

    /// Ends the session; answers whether there was one.
    pub async fn close(&self) -> bool {
        let _one = self.0.changing.lock().await;
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
        self.0.downloads.keep(session);
    }

    /// Files that pages sent, the newest first.
    #[must_use]
    pub fn downloads(&self) -> Vec<KeptDownload> {
        let session = self.0.current.lock().clone();
        self.0.downloads.list(session.as_deref())
    }

    fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.0.environment.lock())
    }

    /// Marks it as used.
    fn usable(&self) -> Option<Arc<Session>> {
        let session = self.live()?;
        session.used(self.now());
        Some(session)
    }

    /// The session, if Chromium is there and runs as the settings say.
    fn live(&self) -> Option<Arc<Session>> {
        let session = self.0.current.lock().clone()?;
        (!session.is_ended() && session.is_headless() == self.settings().headless).then_some(session)
    }

    /// Why there can be no browser now, as far as is known without trying.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        agentd_browser::find_chromium(self.0.executable.as_deref()).err().map(|error| error.to_string())
    }

    /// The settings in force.
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

    /// When the session has gone unused for too long; none where there is no session.
    pub(super) fn idle_at(&self) -> Option<Timestamp> {
        self.0.current.lock().as_ref().map(|session| session.last_used() + IDLE_LIMIT)
    }

    /// Told of each start.
    pub(super) fn started(&self) -> Arc<Notify> {
        Arc::clone(&self.0.started)
    }
}
