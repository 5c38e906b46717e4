//! Acting while what is done is kept.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::describe::Aimed;
use super::find::renamed;
use super::model::{AlternativeKind, RecordedStep, RecordedTarget, TabOrigin};
use super::secrets::{CredentialsInUrl, Secrets, numbers_in, without_credentials};
use super::tabs::Tabs;
use crate::action::{Action, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::error::millis;
use crate::selector::Selector;
use crate::tab::Deadline;
use crate::{ActionOutcome, ActionRequest, BrowserError, Context, ElementState, Tab};

/// For describing what is waited for; it is kept without a description where that takes longer.
const GLANCE: Duration = Duration::from_millis(250);

/// A recording that runs. It goes on when the browser has ended and another one was started.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    credentials: CredentialsInUrl,
    state: Mutex<State>,
    /// Held by the action that runs: what is kept is in the order in which it was done.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    tabs: Tabs,
    secrets: Secrets,
    /// Tabs that something was done in.
    used: HashSet<u32>,
}

/// An action that was done, and what is to be kept of it.
#[derive(Debug)]
pub struct Recorded {
    pub outcome: ActionOutcome,
    pub step: RecordedStep,
    /// A small JPEG of the page after it, where there is one that may be kept.
    pub picture: Option<Vec<u8>>,
}

/// What an action was done to.
#[derive(Default)]
struct Reached {
    targets: Vec<RecordedTarget>,
    /// Whether what was typed is a secret.
    is_secret: bool,
}

impl Recorder {
    /// `context` is the browser's, if one runs already.
    #[must_use]
    pub fn new(context: Option<&Context>, credentials: CredentialsInUrl) -> Self {
        let tabs = Tabs::new(context.map(Context::tabs).unwrap_or_default());
        let state = State { tabs, secrets: Secrets::default(), used: HashSet::new() };
        Self { started: Instant::now(), credentials, state: Mutex::new(state), turn: tokio::sync::Mutex::default() }
    }

    /// Held while an action is done and kept. The answer to a dialog does not wait for it: an action may wait for that.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// As [`Tab::act`]; `asked` are the parameters as they are to be kept.
    ///
    /// # Errors
    /// As [`Tab::act`]. What was not done is not kept.
    pub async fn act(
        &self,
        context: &Context,
        tab: &Arc<Tab>,
        request: ActionRequest,
        mut asked: Map<String, Value>,
    ) -> Result<Recorded, BrowserError> {
        let (tab_number, tab_origin) = self.tab_of(context, tab);
        let at_ms = millis(self.started.elapsed());
        let limit = request.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
        let deadline = Deadline::after(Duration::from_millis(limit));
        let (mut outcome, reached) = reach(tab, request, deadline).await?;
        outcome.duration_ms = deadline.waited_ms();
        let name = asked.remove("action").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        asked.remove("tab_id");
        for target in &reached.targets {
            name_by_selector(&mut asked, target);
        }
        let mut step = RecordedStep {
            action: name,
            parameters: asked,
            targets: reached.targets,
            tab: tab_number,
            tab_origin,
            url: without_credentials(&outcome.url, self.credentials),
            at_ms,
            duration_ms: outcome.duration_ms,
        };
        let visible = {
            let mut state = self.state.lock();
            state.tabs.look(context.tabs());
            state.used.insert(tab_number);
            self.take_secrets(&mut state.secrets, &mut step, reached.is_secret);
            state.secrets.visible().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let visible: Vec<&str> = visible.iter().map(String::as_str).collect();
        let picture = tab.small_picture(&visible).await;
        Ok(Recorded { outcome, step, picture })
    }

    /// The number of a tab, and where it came from if nothing was done in it so far.
    fn tab_of(&self, context: &Context, tab: &Tab) -> (u32, Option<TabOrigin>) {
        let mut state = self.state.lock();
        state.tabs.look(context.tabs());
        let number = state.tabs.number(tab.id()).unwrap_or_default();
        let origin = (!state.used.contains(&number)).then(|| TabOrigin {
            url: without_credentials(&tab.info().url, self.credentials),
            popup: state.tabs.popup(tab.id()),
        });
        (number, origin)
    }

    fn take_secrets(&self, secrets: &mut Secrets, step: &mut RecordedStep, is_secret: bool) {
        for (name, value) in &mut step.parameters {
            let Value::String(text) = value else { continue };
            let is_typed =
                matches!((step.action.as_str(), name.as_str()), ("type_text", "text") | ("press_key", "key"))
                    || name == "prompt_text";
            if is_typed && is_secret && !text.is_empty() {
                *text = secrets.placeholder(text);
            } else if name == "url" {
                *text = secrets.take_from_url(text, self.credentials);
            } else if !numbers_in(text).is_empty() {
                // What looks like a number of ours is none; this keeps it as it is.
                *text = secrets.placeholder(text);
            } else {
                secrets.hide(text);
            }
        }
        secrets.hide(&mut step.url);
        if let Some(origin) = &mut step.tab_origin {
            secrets.hide(&mut origin.url);
        }
        for target in &mut step.targets {
            secrets.hide(&mut target.name);
            secrets.hide(&mut target.fingerprint.label);
            target.frame_url.iter_mut().for_each(|url| secrets.hide(url));
            target.fingerprint.keys.iter_mut().for_each(|key| secrets.hide(key));
            target.alternatives.iter_mut().for_each(|found| secrets.hide(&mut found.selector));
        }
    }
}

/// A number of a snapshot means nothing later, nor does a point.
fn name_by_selector(asked: &mut Map<String, Value>, target: &RecordedTarget) {
    let given = asked.get(&target.parameter).and_then(Value::as_str).unwrap_or_default();
    let is_passing = Selector::parse(given).is_ok_and(|given| given.is_passing());
    let best = target.alternatives.iter().find(|found| found.kind != AlternativeKind::Label);
    if let Some(best) = best.filter(|_| is_passing) {
        asked.insert(target.parameter.clone(), best.selector.clone().into());
    }
}

/// Does it, to elements that are known by then.
async fn reach(
    tab: &Tab,
    request: ActionRequest,
    deadline: Deadline,
) -> Result<(ActionOutcome, Reached), BrowserError> {
    let asks_for_secret = match &request.action {
        Action::WaitForSelector { selector, state } => {
            return wait(tab, selector.clone(), state.unwrap_or_default(), request).await;
        }
        Action::PressKey { key, selector: None } if is_character(key) => tab.focus_is_secret().await?,
        Action::HandleDialog { .. } => tab.dialogs().last().is_some_and(|dialog| names_a_secret(&dialog.message)),
        _ => false,
    };
    loop {
        let mut bound = request.clone();
        let mut names = Vec::new();
        let mut aimed = Vec::new();
        for (parameter, selector) in bound.action.selectors_mut() {
            let one = aim(tab, parameter, selector, deadline).await?;
            names.push((one.pin.selector(), selector.clone()));
            // The point of an element that is pointed at is not its middle.
            *selector = Selector::parse(selector)?.of_number(&one.pin.selector());
            aimed.push(one);
        }
        if !names.is_empty() {
            bound.timeout_ms = Some(millis(deadline.remaining()).max(1));
        }
        let outcome = match tab.act(bound).await {
            // It went, or became something else, before anything was done to it.
            Err(BrowserError::StaleRef { selector, .. })
                if names.iter().any(|(pinned, _)| *pinned == selector) && !deadline.is_over() =>
            {
                continue;
            }
            done => done.map_err(|error| renamed(error, &names))?,
        };
        let types = match &request.action {
            Action::TypeText { .. } => true,
            Action::PressKey { key, .. } => is_character(key),
            _ => false,
        };
        let is_secret = asks_for_secret || (types && aimed.iter().any(|one| one.is_secret));
        return Ok((outcome, Reached { targets: aimed.into_iter().map(|one| one.target).collect(), is_secret }));
    }
}

async fn aim<'t>(tab: &'t Tab, parameter: &str, selector: &str, deadline: Deadline) -> Result<Aimed<'t>, BrowserError> {
    let turn = tokio::time::timeout(deadline.remaining(), tab.turn.lock());
    let _turn = turn.await.map_err(|_| deadline.timeout("the end of another action in this tab"))?;
    loop {
        let element = tab.attached(selector, deadline).await?;
        if let Some(aimed) = tab.aim_at(&element, parameter, selector).await? {
            return Ok(aimed);
        }
        if deadline.is_over() {
            return Err(deadline.timeout("an element that stays where it is"));
        }
    }
}

/// What is waited for may not be there yet, or not any more; it is described when it is.
async fn wait(
    tab: &Tab,
    selector: String,
    state: ElementState,
    request: ActionRequest,
) -> Result<(ActionOutcome, Reached), BrowserError> {
    let glance = async || aim(tab, "selector", &selector, Deadline::after(GLANCE)).await.ok().map(|aimed| aimed.target);
    let goes = matches!(state, ElementState::Hidden | ElementState::Detached);
    let before = if goes { glance().await } else { None };
    let outcome = tab.act(request).await?;
    let target = if goes { before } else { glance().await };
    Ok((outcome, Reached { targets: target.into_iter().collect(), is_secret: false }))
}

/// Whether a key writes one.
fn is_character(key: &str) -> bool {
    key.strip_prefix("Shift+").unwrap_or(key).chars().count() == 1
}

fn names_a_secret(message: &str) -> bool {
    let message = message.to_lowercase();
    ["password", "passphrase", "passcode", "passwort", "secret", "one-time code"]
        .iter()
        .any(|name| message.contains(name))
}
