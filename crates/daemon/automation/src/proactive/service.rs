//! Finding what an agent may begin about, and showing what it began.

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

/// Runs that failed longer ago are no news.
const FAILED_WITHIN: Duration = Duration::from_secs(86_400);
/// Runs that are looked at, those that failed first.
const MOST_RUNS: u32 = 200;
/// Habits change slowly, and reading them looks at four weeks.
const BETWEEN_SUGGESTIONS: Duration = Duration::from_secs(3_600);

#[derive(Debug, thiserror::Error)]
pub enum ProactiveError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("turns that agents began by themselves cannot be read now")]
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
    /// When the suggestions were last looked at here. Microseconds; rows decide.
    last_suggestions: AtomicI64,
}

/// Turns that agents begin by themselves. Cheap to clone.
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
        proactive.notify().push().set_waiting(Arc::new(proactive.clone()));
        Detached::new(proactive)
    }

    /// The newest first, and how many there are.
    ///
    /// # Errors
    /// An unknown agent, or the store's refusal.
    pub async fn list(&self, agent: Option<&str>, page: Page) -> Result<(Vec<ProactiveTurn>, u64), ProactiveError> {
        let agent = match agent {
            Some(name) => Some(self.0.agents.get(name).await?.id.clone()),
            None => None,
        };
        Ok(store::list_turns(&mut self.0.context.db.read_snapshot().await?, agent.as_ref(), page).await?)
    }

    /// Whether agents may begin at `now` at all.
    pub(super) fn may_begin(&self, now: Timestamp) -> bool {
        let rules = self.0.settings.proactive();
        rules.enabled && rules.max_per_day > 0 && !self.0.settings.is_quiet(now)
    }

    /// The day on which a turn that begins at `now` counts.
    pub(super) fn day(&self, now: Timestamp) -> String {
        self.0.settings.day(now).to_string()
    }

    /// What had no turn yet, the most urgent first.
    pub(super) async fn causes(&self, now: Timestamp) -> Result<Vec<Cause>, SchedulerError> {
        let failed = self.0.scheduler.failed_lately(now - FAILED_WITHIN, MOST_RUNS).await?;
        let mut causes: Vec<Cause> = failed.into_iter().map(Cause::FailedRun).collect();
        let last = Timestamp::from_micros(self.0.last_suggestions.load(Ordering::Relaxed));
        if now < last || now.since(last) >= BETWEEN_SUGGESTIONS {
            let language = Language::from_tag(&self.0.settings.interface().language);
            causes.extend(self.0.scheduler.suggestions(language).await?.into_iter().map(Cause::Suggestion));
        }
        let mut read = self.0.context.db.read().await?;
        let mut new = Vec::new();
        for cause in causes {
            if !store::has_begun(&mut read, cause.kind(), &cause.id()).await? {
                new.push(cause);
            }
        }
        Ok(new)
    }

    /// All suggestions were looked at and have a turn, or must wait for another day.
    pub(super) fn note_suggestions(&self, now: Timestamp) {
        let last = Timestamp::from_micros(self.0.last_suggestions.load(Ordering::Relaxed));
        if now < last || now.since(last) >= BETWEEN_SUGGESTIONS {
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
