//! Replay of recordings: repeats steps as long as each element is identified with certainty.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::{DomainError, FieldProblem, Problems, Secret};
use agentd_browser::{Action, Drift, RecordedStep, Replay, ReplayError, Replayed, StepTab, Tab, Tried, with_secrets};
use tokio::time::Instant;

use super::act::with_proxy_error;
use super::{Browser, Session};
use crate::browser::error::BrowserError;
use crate::browser::model::{Actor, BrowserAction, RecordingId, StoredStep};

/// Secrets by number.
type Secrets = BTreeMap<String, Secret>;

/// Result of a replay.
#[derive(Debug)]
pub struct Report {
    pub recording_id: RecordingId,
    /// Executed steps; the last one may have failed.
    pub steps: Vec<ReplayedStep>,
}

#[derive(Debug)]
pub struct ReplayedStep {
    pub action: String,
    pub duration_ms: u64,
    pub drift: Vec<Drift>,
    pub failure: Option<StepFailure>,
}

/// Reason why a step failed.
#[derive(Debug)]
pub struct StepFailure {
    pub error: BrowserError,
    pub tried: Vec<Tried>,
    /// JPEG of the page at the failure, without visible secrets.
    pub picture: Option<Vec<u8>>,
}

/// Running replay.
struct ReplayRun<'r> {
    browser: &'r Browser,
    session: Arc<Session>,
    replay: Replay,
    secrets: &'r Secrets,
    is_first: bool,
}

impl Browser {
    /// Replays a recording; stops at the first failed step.
    ///
    /// # Errors
    /// The recording does not exist, secrets are missing, another replay is running, or no browser is available.
    pub async fn replay(&self, id: &RecordingId, secrets: &Secrets) -> Result<Report, BrowserError> {
        let (_, steps) = self.recording(id).await?;
        check_secrets(&steps, secrets)?;
        let _one = self.0.recordings.replaying.try_lock().map_err(|_| BrowserError::ReplayRunning)?;
        let session = self.session().await?;
        let replay = Replay::new(session.context());
        let mut run = ReplayRun { browser: self, session, replay, secrets, is_first: true };
        let mut report = Report { recording_id: id.clone(), steps: Vec::new() };
        for kept in &steps {
            let step = run.step(&kept.step).await;
            let is_over = step.failure.is_some();
            report.steps.push(step);
            if is_over {
                break;
            }
        }
        Ok(report)
    }
}

/// Reports all missing secrets.
fn check_secrets(steps: &[StoredStep], secrets: &Secrets) -> Result<(), BrowserError> {
    let mut missing = BTreeMap::new();
    for (index, kept) in steps.iter().enumerate() {
        for number in kept.step.secrets() {
            missing.entry(number).or_insert_with(|| format!("is required by step {index}: {}", kept.step.caption()));
        }
    }
    let mut problems = Problems::new();
    for (number, message) in missing {
        problems.require(secrets.contains_key(&number.to_string()), &format!("secrets.{number}"), message);
    }
    Ok(problems.into_result()?)
}

/// Reports an invalid step, which can only come from another version of the daemon.
fn invalid_step(problems: &[FieldProblem]) -> BrowserError {
    let problems = problems.iter().map(|problem| format!("{} {}", problem.field, problem.message));
    let problems = problems.collect::<Vec<_>>().join("; ");
    agentd_browser::BrowserError::Invalid(format!("the recording has an unknown format: {problems}")).into()
}

impl ReplayRun<'_> {
    async fn step(&mut self, step: &RecordedStep) -> ReplayedStep {
        let started = Instant::now();
        let mut tab = None;
        let done = self.try_step(step, &mut tab).await;
        self.session.mark_used(self.browser.now());
        let (drift, failure) = match done {
            Ok(done) => (done.drift, None),
            Err((error, tried)) => {
                let tab = tab.or_else(|| self.session.active_tab());
                let picture = match &tab {
                    Some(tab) => self.replay.picture(tab, self.secrets.values()).await,
                    None => None,
                };
                (Vec::new(), Some(StepFailure { error, tried, picture }))
            }
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        ReplayedStep { action: step.action.clone(), duration_ms, drift, failure }
    }

    async fn try_step(
        &mut self,
        step: &RecordedStep,
        used: &mut Option<Arc<Tab>>,
    ) -> Result<Replayed, (BrowserError, Vec<Tried>)> {
        let plain = |error: BrowserError| (error, Vec::new());
        if self.browser.0.context.draining.is_cancelled() {
            return Err(plain(BrowserError::NotRunning));
        }
        let secret = |number: u32| self.secrets.get(&number.to_string());
        let action = BrowserAction::of_step(step, with_secrets(&step.parameters, secret));
        let action = action.map_err(|problems| plain(invalid_step(&problems)))?;
        let (request, _upload) = self.browser.request(&Actor::Owner, &action).await.map_err(plain)?;
        let action = action.action;
        let tab = self.tab(step, &action).await.map_err(plain)?;
        *used = Some(Arc::clone(&tab));
        let refused = self.session.refusals.count();
        match self.replay.act(self.session.context(), &tab, step, request).await {
            Ok(done) => {
                let outcome = with_proxy_error(&self.session, refused, &action, Ok(done.outcome)).map_err(plain)?;
                Ok(Replayed { outcome, drift: done.drift })
            }
            Err(ReplayError { error, tried }) => match with_proxy_error(&self.session, refused, &action, Err(error)) {
                Err(error) => Err((error, tried)),
                Ok(outcome) => Ok(Replayed { outcome, drift: Vec::new() }),
            },
        }
    }

    /// Returns the tab of a step: the active tab for the first one; others are opened as recorded. A tab that showed a
    /// page at its first step navigates there first.
    async fn tab(&mut self, step: &RecordedStep, action: &Action) -> Result<Arc<Tab>, BrowserError> {
        let url = match self.replay.tab(self.session.context(), step).await? {
            StepTab::There(tab) => return Ok(tab),
            StepTab::New { url } => url,
        };
        let is_first = std::mem::replace(&mut self.is_first, false);
        let tab = if is_first { self.session.tab(None).await? } else { self.session.open_tab(&Actor::Owner).await? };
        self.replay.follow(step, &tab);
        let is_goto = matches!(action, Action::Goto { .. });
        if !is_goto && !matches!(url.as_str(), "" | "about:blank") && tab.info().url != url {
            let goto = BrowserAction::goto(url, Some(tab.id().to_owned()));
            let refused = self.session.refusals.count();
            let (request, _) = self.browser.request(&Actor::Owner, &goto).await?;
            let done = tab.act(request).await;
            with_proxy_error(&self.session, refused, &goto.action, done)?;
        }
        Ok(tab)
    }
}

impl StepFailure {
    /// Returns a stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.error.code()
    }
}
