//! Search for causes of proactive turns, and listing of turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, Page, Timestamp};
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_engine::agents::{AgentError, Agents};
use agentd_engine::engine::Engine;
use agentd_schedule::Language;
use agentd_store::StoreError;

use super::model::{Cause, ProactiveTurn};
use super::store;
use crate::notify::Notify;
use crate::scheduler::{Scheduler, SchedulerError};

/// Maximum age of a failed run that causes a turn.
const MAX_FAILURE_AGE: Duration = Duration::from_secs(86_400);
/// Maximum number of failed runs considered, oldest first.
const MAX_FAILED_RUNS: u32 = 200;
/// Interval at which suggestions are computed. They change slowly, and computing them reads four weeks of activity.
const SUGGESTION_INTERVAL: Duration = Duration::from_secs(3_600);

#[derive(Debug, thiserror::Error)]
pub enum ProactiveError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("failed to read proactive turns; retry")]
    Store(#[from] StoreError),
}

impl DomainError for ProactiveError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Agent(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    engine: Engine,
    notify: Notify,
    scheduler: Scheduler,
    /// When this daemon last processed the suggestions, in microseconds. A hint; the rows are authoritative.
    last_suggestions: AtomicI64,
}

/// Service of proactive turns. Cheap to clone.
#[derive(Clone)]
pub struct Proactive(Arc<Inner>);

impl std::fmt::Debug for Proactive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proactive").finish_non_exhaustive()
    }
}

impl Proactive {
    pub fn new(
        context: AppContext,
        settings: Settings,
        agents: Agents,
        engine: Engine,
        notify: Notify,
        scheduler: Scheduler,
    ) -> Detached<Self> {
        let last_suggestions = AtomicI64::new(0);
        let inner = Inner { context, settings, agents, engine, notify, scheduler, last_suggestions };
        let proactive = Self(Arc::new(inner));
        proactive.notify().push().set_pending_check(Arc::new(proactive.clone()));
        Detached::new(proactive)
    }

    /// Returns a page of turns, newest first, and their total number.
    ///
    /// # Errors
    /// An unknown agent, or a store error.
    pub async fn list(&self, agent: Option<&str>, page: Page) -> Result<(Vec<ProactiveTurn>, u64), ProactiveError> {
        let agent = match agent {
            Some(name) => Some(self.0.agents.get(name).await?.id.clone()),
            None => None,
        };
        Ok(store::list_turns(&mut self.0.context.db.read_snapshot().await?, agent.as_ref(), page).await?)
    }

    /// Whether the settings permit proactive turns at `now`.
    pub(super) fn is_permitted(&self, now: Timestamp) -> bool {
        let rules = self.0.settings.proactive();
        rules.enabled && rules.max_per_day > 0 && !self.0.settings.is_quiet(now)
    }

    /// Returns the day that a turn started at `now` counts for.
    pub(super) fn day(&self, now: Timestamp) -> String {
        self.0.settings.day(now).to_string()
    }

    /// Returns the causes without a turn, most urgent first.
    pub(super) async fn causes(&self, now: Timestamp) -> Result<Vec<Cause>, SchedulerError> {
        let failed = self.0.scheduler.list_recent_failures(now - MAX_FAILURE_AGE, MAX_FAILED_RUNS).await?;
        let mut causes: Vec<Cause> = failed.into_iter().map(Cause::FailedRun).collect();
        let last = Timestamp::from_micros(self.0.last_suggestions.load(Ordering::Relaxed));
        if now < last || now.since(last) >= SUGGESTION_INTERVAL {
            let language = Language::from_tag(&self.0.settings.interface().language);
            causes.extend(self.0.scheduler.suggestions(language).await?.into_iter().map(Cause::Suggestion));
        }
        let mut read = self.0.context.db.read().await?;
        let mut new = Vec::new();
        for cause in causes {
            if !store::has_turn(&mut read, cause.kind(), &cause.id()).await? {
                new.push(cause);
            }
        }
        Ok(new)
    }

    /// Records that all suggestions have a turn or must wait for another day.
    pub(super) fn record_suggestions(&self, now: Timestamp) {
        let last = Timestamp::from_micros(self.0.last_suggestions.load(Ordering::Relaxed));
        if now < last || now.since(last) >= SUGGESTION_INTERVAL {
            self.0.last_suggestions.store(now.as_micros(), Ordering::Relaxed);
        }
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(super) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn notify(&self) -> &Notify {
        &self.0.notify
    }
}
