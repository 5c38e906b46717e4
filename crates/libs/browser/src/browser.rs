//! Browser handle: starts Chromium on demand and restarts it after it has ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_process::Spawner;
use futures_util::future::join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::active::ActiveTab;
use crate::cdp::CdpError;
use crate::chromium::Chromium;
use crate::downloads::{Download, Downloads};
use crate::proxy_login::log_in;
use crate::registry::{INTERNAL_TAB_URL, Registry};
use crate::screencast::{Pace, Screencast, Viewer};
use crate::shared::{COMMAND_TIMEOUT, Shared, send};
use crate::tab::{Deadline, Tab, is_gone};
use crate::{BrowserError, BrowserOptions, Environment, TabInfo};

const CLOSE_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Browser whose Chromium starts with the first context. Dropping it and all its contexts ends the process.
#[derive(Debug)]
pub struct Browser {
    options: BrowserOptions,
    spawner: Spawner,
    running: tokio::sync::Mutex<Option<Arc<Running>>>,
    starts: AtomicU64,
}

#[derive(Debug)]
struct Running {
    chromium: Chromium,
    registry: Arc<Registry>,
    shared: Arc<Shared>,
}

/// Isolated browser context with its own cookies, storage and tabs, which are deleted when it is dropped.
#[derive(Debug)]
pub struct Context {
    id: Arc<str>,
    active: ActiveTab,
    screencast: Screencast,
    environment: Arc<Environment>,
    running: Arc<Running>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedContext {
    browser_context_id: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedTarget {
    target_id: Arc<str>,
}

impl Browser {
    #[must_use]
    pub fn new(options: BrowserOptions, spawner: Spawner) -> Self {
        Self { options, spawner, running: tokio::sync::Mutex::default(), starts: AtomicU64::new(0) }
    }

    /// Number of Chromium starts; more than one means that a process has ended.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Version and process ID of the running Chromium.
    pub async fn process(&self) -> Option<(String, u32)> {
        let running = self.running.lock().await;
        let chromium = &running.as_ref()?.chromium;
        (!chromium.is_ended()).then(|| (chromium.version.clone(), chromium.pid))
    }

    /// Ends the process and returns after it and its folder are gone. Pending operations fail.
    pub async fn close(&self) {
        if let Some(running) = self.running.lock().await.take() {
            running.chromium.end().await;
        }
    }

    /// Lowers the priority of the running process below other programs.
    pub(crate) async fn lower_priority(&self) {
        if let Some(running) = &*self.running.lock().await {
            running.chromium.lower_priority();
        }
    }

    /// Creates a context, and starts Chromium if none is running.
    ///
    /// # Errors
    /// [`BrowserError::Unavailable`] if Chromium is not installed or cannot be started.
    pub async fn context(&self) -> Result<Context, BrowserError> {
        self.context_in(Arc::default()).await
    }

    /// Creates a context that uses this environment.
    ///
    /// # Errors
    /// See [`Self::context`].
    pub async fn context_in(&self, environment: Arc<Environment>) -> Result<Context, BrowserError> {
        let running = self.running().await?;
        let connection = running.shared.connection.clone();
        let proxy =
            self.options.proxy.as_ref().map_or("direct://".to_owned(), |proxy| format!("http://{}", proxy.address));
        // Without this entry, loopback addresses bypass the proxy.
        let parameters = json!({"disposeOnDetach": true, "proxyServer": proxy, "proxyBypassList": "<-loopback>"});
        let created: CreatedContext =
            connection.call(None, "Target.createBrowserContext", parameters, COMMAND_TIMEOUT).await?;
        let id = created.browser_context_id;
        let active = ActiveTab::new(Arc::clone(&id), Arc::clone(&running.registry));
        let context = Context { id, active, screencast: Screencast::default(), environment, running };
        let running = &context.running;
        let behavior = if running.registry.downloads.directory.is_some() { "allowAndName" } else { "deny" };
        let parameters = json!({
            "behavior": behavior, "browserContextId": context.id, "eventsEnabled": true,
            "downloadPath": running.chromium.folder.downloads(),
        });
        connection.call::<IgnoredAny>(None, "Browser.setDownloadBehavior", parameters, COMMAND_TIMEOUT).await?;
        if let Some(credential) = self.options.proxy.as_ref().and_then(|proxy| proxy.credential.as_ref()) {
            let tab = context.open_internal_tab().await?;
            log_in(&tab, &connection, credential).await?;
            context.close_and_wait(&tab).await?;
        }
        running.registry.set_environment(&context.id, &context.environment);
        context.permit_geolocation(true).await?;
        Ok(context)
    }

    async fn running(&self) -> Result<Arc<Running>, BrowserError> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot.as_ref().filter(|running| !running.chromium.is_ended()) {
            return Ok(Arc::clone(running));
        }
        *slot = None;
        let limits = &self.options.limits;
        let downloads = Downloads::new(self.options.download_directory.clone(), *limits);
        let registry = Arc::new(Registry::new(limits.tabs, downloads));
        let chromium = Chromium::start(&self.options, &self.spawner, registry.clone()).await?;
        let connection = chromium.connection.clone();
        let shared = Arc::new(Shared {
            connection: connection.clone(),
            folder: Arc::clone(&chromium.folder),
            uploads: AtomicU64::new(0),
            upload_bytes: limits.download_bytes,
            dialog_timeout: limits.dialog_timeout,
            viewport: self.options.viewport,
            version: chromium.version.clone(),
        });
        // The registry is new, so the cell is empty.
        let _ = registry.shared.set(Arc::clone(&shared));
        let attach = json!({
            "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
            "filter": [{"type": "page"}, {"type": "service_worker"}, {"type": "shared_worker"}, {"exclude": true}],
        });
        let discover = json!({"discover": true, "filter": [{"type": "page"}, {"exclude": true}]});
        connection.call::<IgnoredAny>(None, "Target.setAutoAttach", attach, COMMAND_TIMEOUT).await?;
        connection.call::<IgnoredAny>(None, "Target.setDiscoverTargets", discover, COMMAND_TIMEOUT).await?;
        self.starts.fetch_add(1, Ordering::Relaxed);
        let running = Arc::new(Running { chromium, registry, shared });
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }
}

impl Context {
    /// Whether its Chromium has ended, so that a new context is needed.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.running.chromium.is_ended()
    }

    /// Opens a blank tab.
    ///
    /// # Errors
    /// [`BrowserError::TooManyTabs`], or the browser has ended.
    pub async fn open_tab(&self) -> Result<Arc<Tab>, BrowserError> {
        let registry = &self.running.registry;
        // Serializes concurrent calls, so that the limit is checked after the earlier tab is registered.
        let _guard = registry.opening.lock().await;
        let limit = registry.tab_limit();
        if registry.count() >= limit {
            return Err(BrowserError::TooManyTabs { limit });
        }
        self.open("about:blank").await
    }

    /// Opens an internal tab, which is not listed and has no environment.
    pub(crate) async fn open_internal_tab(&self) -> Result<Arc<Tab>, BrowserError> {
        self.open(INTERNAL_TAB_URL).await
    }

    async fn open(&self, url: &str) -> Result<Arc<Tab>, BrowserError> {
        let registry = &self.running.registry;
        let deadline = Deadline::after(COMMAND_TIMEOUT);
        // A separate window, so that no tab hides another.
        let parameters = json!({"url": url, "browserContextId": self.id, "newWindow": true});
        let connection = &self.running.shared.connection;
        let created: CreatedTarget = connection.call(None, "Target.createTarget", parameters, COMMAND_TIMEOUT).await?;
        let mut changes = registry.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(tab) = registry.tab(&created.target_id) {
                    return Ok(tab);
                }
                if connection.is_ended() || changes.changed().await.is_err() {
                    return Err(BrowserError::NoTab(created.target_id.to_string()));
                }
            }
        };
        let tab = tokio::time::timeout(COMMAND_TIMEOUT, found).await.map_err(|_| deadline.timeout("a new tab"))??;
        tab.is_requested.store(true, Ordering::Relaxed);
        tab.wait_until(deadline, "a new tab", |state| state.is_ready.then_some(())).await?;
        Ok(tab)
    }

    /// Returns the tabs, including popups, in opening order.
    #[must_use]
    pub fn tabs(&self) -> Vec<TabInfo> {
        self.running.registry.tabs(&self.id).iter().map(|tab| tab.info()).collect()
    }

    /// Returns a tab of this context.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`]
    pub fn tab(&self, id: &str) -> Result<Arc<Tab>, BrowserError> {
        let tab = self.running.registry.tab(id);
        let tab = tab.filter(|tab| tab.context == self.id && tab.environment.is_some());
        tab.ok_or_else(|| BrowserError::NoTab(id.to_owned()))
    }

    /// Returns the activated tab, or else the most recently opened one.
    #[must_use]
    pub fn active_tab(&self) -> Option<Arc<Tab>> {
        self.active.get()
    }

    /// Activates a tab, which viewers then show.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`]
    pub fn activate(&self, id: &str) -> Result<Arc<Tab>, BrowserError> {
        let tab = self.tab(id)?;
        self.active.choose(&tab);
        Ok(tab)
    }

    /// Streams the active tab until the viewer is dropped. Must be called within a runtime.
    #[must_use]
    pub fn watch(&self, pace: Pace) -> Viewer {
        self.screencast.watch(&self.active, &self.shared().connection, pace)
    }

    /// Waits for a tab that matches `condition`, for example a popup.
    ///
    /// # Errors
    /// [`BrowserError::Timeout`], or the browser has ended.
    pub async fn wait_for_tab(
        &self,
        limit: Duration,
        condition: impl Fn(&TabInfo) -> bool,
    ) -> Result<Arc<Tab>, BrowserError> {
        let deadline = Deadline::after(limit);
        let mut changes = self.running.registry.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(tab) = self.tabs().into_iter().find(|tab| condition(tab)) {
                    return self.tab(&tab.tab_id);
                }
                if self.is_ended() || changes.changed().await.is_err() {
                    return Err(BrowserError::Ended("the wait for a tab was interrupted".into()));
                }
            }
        };
        let tab = tokio::time::timeout(limit, found).await.map_err(|_| deadline.timeout("a new tab"))??;
        tab.wait_until(deadline, "a new tab", |state| state.is_ready.then_some(())).await?;
        Ok(tab)
    }

    /// Closes a tab. Pending operations in it fail.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`], or the browser does not close the tab.
    pub async fn close_tab(&self, id: &str) -> Result<(), BrowserError> {
        let tab = self.tab(id)?;
        self.close_and_wait(&tab).await
    }

    pub(crate) async fn close_and_wait(&self, tab: &Tab) -> Result<(), BrowserError> {
        let deadline = Deadline::after(COMMAND_TIMEOUT);
        let connection = &self.running.shared.connection;
        let mut state = tab.state.subscribe();
        // Chromium drops the close request if a navigation starts at the same moment, so repeat it.
        while !deadline.is_over() {
            let parameters = json!({"targetId": tab.id()});
            match connection.call::<IgnoredAny>(None, "Target.closeTarget", parameters, deadline.remaining()).await {
                // Already closed; the event has not arrived yet.
                Err(CdpError::Refused { message, .. }) if message.contains("No target with given id") => {}
                other => drop(other?),
            }
            let closed = state.wait_for(|state| state.is_closed || state.ended.is_some());
            if tokio::time::timeout(CLOSE_RETRY_INTERVAL.min(deadline.remaining()), closed).await.is_ok() {
                return Ok(());
            }
        }
        Err(deadline.timeout("the tab to close"))
    }

    #[must_use]
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// Version of Chromium, as reported by itself.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.running.shared.version
    }

    /// Applies changes to the environment to tabs, frames and workers that are already open.
    ///
    /// # Errors
    /// The browser rejects a setting or has ended.
    pub async fn apply_environment(&self) -> Result<(), BrowserError> {
        let shared = &self.running.shared;
        let sessions = self.running.registry.sessions_in(&self.environment);
        let applied =
            sessions.iter().map(|(session, kind)| self.environment.configure_session(shared, session, *kind, false));
        for outcome in join_all(applied).await {
            match outcome {
                // It closed in the meantime.
                Err(error) if is_gone(&error) => {}
                other => other?,
            }
        }
        self.permit_geolocation(false).await
    }

    async fn permit_geolocation(&self, is_new: bool) -> Result<(), BrowserError> {
        let has_geolocation = self.environment.profile().geolocation.is_some();
        let (method, parameters) = match (has_geolocation, is_new) {
            (true, _) => {
                ("Browser.grantPermissions", json!({"permissions": ["geolocation"], "browserContextId": self.id}))
            }
            (false, false) => ("Browser.resetPermissions", json!({"browserContextId": self.id})),
            (false, true) => return Ok(()),
        };
        self.running.shared.connection.call::<IgnoredAny>(None, method, parameters, COMMAND_TIMEOUT).await?;
        Ok(())
    }

    /// Returns the last 100 downloads since the browser was started.
    #[must_use]
    pub fn downloads(&self) -> Vec<Download> {
        self.running.registry.downloads.list()
    }

    /// Waits for a download that matches `condition`.
    ///
    /// # Errors
    /// [`BrowserError::Timeout`]
    pub async fn wait_for_download(
        &self,
        limit: Duration,
        condition: impl Fn(&Download) -> bool,
    ) -> Result<Download, BrowserError> {
        let deadline = Deadline::after(limit);
        let mut list = self.running.registry.downloads.subscribe();
        let found = list.wait_for(|list| list.iter().any(&condition));
        match tokio::time::timeout(limit, found).await {
            Ok(Ok(list)) => list.iter().find(|download| condition(download)).cloned(),
            _ => None,
        }
        .ok_or_else(|| deadline.timeout("the download"))
    }

    /// Directory of completed downloads.
    #[must_use]
    pub fn download_directory(&self) -> Option<PathBuf> {
        self.running.registry.downloads.directory.clone()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.running.shared
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.running.registry.forget_environment(&self.id);
        if !self.is_ended() && tokio::runtime::Handle::try_current().is_ok() {
            let parameters = json!({"browserContextId": self.id});
            send(&self.running.shared, "Target.disposeBrowserContext", parameters);
        }
    }
}
