//! Recorder: performs actions and describes them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::describe::DescribedTarget;
use super::find::with_target_names;
use super::model::{AlternativeKind, RecordedStep, RecordedTarget, TabOrigin};
use super::secrets::{CredentialsInUrl, Secrets, secret_numbers, without_credentials};
use super::tabs::Tabs;
use crate::action::{Action, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::error::millis;
use crate::selector::Selector;
use crate::tab::Deadline;
use crate::{ActionOutcome, ActionRequest, BrowserError, Context, ElementState, Tab};

/// Time limit for describing an awaited element; after it the step is recorded without a description.
const DESCRIBE_TIMEOUT: Duration = Duration::from_millis(250);

/// Active recording. It continues if the browser ends and another one is started.
#[derive(Debug)]
pub struct Recorder {
    started: Instant,
    credentials: CredentialsInUrl,
    state: Mutex<State>,
    /// Held by the running action, so that steps are recorded in the order of execution.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    tabs: Tabs,
    secrets: Secrets,
    /// Tabs with at least one recorded action.
    used: HashSet<u32>,
}

/// Outcome of an action with its recorded step.
#[derive(Debug)]
pub struct Recorded {
    pub outcome: ActionOutcome,
    pub step: RecordedStep,
    /// Small JPEG of the page after the action, if it may be stored.
    pub picture: Option<Vec<u8>>,
}

/// Elements that an action was performed on.
#[derive(Default)]
struct ActionTargets {
    targets: Vec<RecordedTarget>,
    /// Whether the typed text is a secret.
    is_secret: bool,
}

impl Recorder {
    /// Starts a recording. `context` is the running context, if any.
    #[must_use]
    pub fn new(context: Option<&Context>, credentials: CredentialsInUrl) -> Self {
        let tabs = Tabs::new(context.map(Context::tabs).unwrap_or_default());
        let state = State { tabs, secrets: Secrets::default(), used: HashSet::new() };
        Self { started: Instant::now(), credentials, state: Mutex::new(state), turn: tokio::sync::Mutex::default() }
    }

    /// Locks the recording for an action. An answer to a dialog must not wait for this lock, since an action may wait
    /// for the answer.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Performs an action as [`Tab::act`] does, and records it. `asked` are the parameters to record.
    ///
    /// # Errors
    /// See [`Tab::act`]. A failed action is not recorded.
    pub async fn act(
        &self,
        context: &Context,
        tab: &Arc<Tab>,
        request: ActionRequest,
        mut fields: Map<String, Value>,
    ) -> Result<Recorded, BrowserError> {
        let (tab_number, tab_origin) = self.tab_of(context, tab);
        let at_ms = millis(self.started.elapsed());
        let limit = request.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
        let deadline = Deadline::after(Duration::from_millis(limit));
        let (mut outcome, targets) = perform_on_targets(tab, request, deadline).await?;
        outcome.duration_ms = deadline.waited_ms();
        let name = fields.remove("action").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        fields.remove("tab_id");
        for target in &targets.targets {
            use_stable_selector(&mut fields, target);
        }
        let mut step = RecordedStep {
            action: name,
            parameters: fields,
            targets: targets.targets,
            tab: tab_number,
            tab_origin,
            url: without_credentials(&outcome.url, self.credentials),
            at_ms,
            duration_ms: outcome.duration_ms,
        };
        let visible = {
            let mut state = self.state.lock();
            state.tabs.update(context.tabs());
            state.used.insert(tab_number);
            self.redact_secrets(&mut state.secrets, &mut step, targets.is_secret);
            state.secrets.visible().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let visible: Vec<&str> = visible.iter().map(String::as_str).collect();
        let picture = tab.small_picture(&visible).await;
        Ok(Recorded { outcome, step, picture })
    }

    /// Returns the number of a tab and, before its first action, its origin.
    fn tab_of(&self, context: &Context, tab: &Tab) -> (u32, Option<TabOrigin>) {
        let mut state = self.state.lock();
        state.tabs.update(context.tabs());
        let number = state.tabs.number(tab.id()).unwrap_or_default();
        let origin = (!state.used.contains(&number)).then(|| TabOrigin {
            url: without_credentials(&tab.info().url, self.credentials),
            popup: state.tabs.popup(tab.id()),
        });
        (number, origin)
    }

    fn redact_secrets(&self, secrets: &mut Secrets, step: &mut RecordedStep, is_secret: bool) {
        for (name, value) in &mut step.parameters {
            let Value::String(text) = value else { continue };
            let is_typed =
                matches!((step.action.as_str(), name.as_str()), ("type_text", "text") | ("press_key", "key"))
                    || name == "prompt_text";
            if is_typed && is_secret && !text.is_empty() {
                *text = secrets.placeholder(text);
            } else if name == "url" {
                *text = secrets.redact_url(text, self.credentials);
            } else if !secret_numbers(text).is_empty() {
                // The text contains a literal placeholder; this preserves it.
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

/// Replaces snapshot numbers and points, which are meaningless later, by a selector.
fn use_stable_selector(fields: &mut Map<String, Value>, target: &RecordedTarget) {
    let given = fields.get(&target.parameter).and_then(Value::as_str).unwrap_or_default();
    let is_transient = Selector::parse(given).is_ok_and(|given| given.is_transient());
    let best = target.alternatives.iter().find(|found| found.kind != AlternativeKind::Label);
    if let Some(best) = best.filter(|_| is_transient) {
        fields.insert(target.parameter.clone(), best.selector.clone().into());
    }
}

/// Performs an action on elements that are described first.
async fn perform_on_targets(
    tab: &Tab,
    request: ActionRequest,
    deadline: Deadline,
) -> Result<(ActionOutcome, ActionTargets), BrowserError> {
    let asks_for_secret = match &request.action {
        Action::WaitForSelector { selector, state } => {
            return wait(tab, selector.clone(), state.unwrap_or_default(), request).await;
        }
        Action::PressKey { key, selector: None } if is_character(key) => tab.focus_is_secret().await?,
        Action::HandleDialog { .. } => tab.dialogs().last().is_some_and(|dialog| mentions_secret(&dialog.message)),
        _ => false,
    };
    loop {
        let mut bound = request.clone();
        let mut names = Vec::new();
        let mut described = Vec::new();
        for (parameter, selector) in bound.action.selectors_mut() {
            let one = wait_for_target(tab, parameter, selector, deadline).await?;
            names.push((one.pin.selector(), selector.clone()));
            // Preserve the point within the element.
            *selector = Selector::parse(selector)?.with_reference(&one.pin.selector());
            described.push(one);
        }
        if !names.is_empty() {
            bound.timeout_ms = Some(millis(deadline.remaining()).max(1));
        }
        let outcome = match tab.act(bound).await {
            // The element disappeared or changed before the action.
            Err(BrowserError::StaleRef { selector, .. })
                if names.iter().any(|(pinned, _)| *pinned == selector) && !deadline.is_over() =>
            {
                continue;
            }
            done => done.map_err(|error| with_target_names(error, &names))?,
        };
        let is_typing = match &request.action {
            Action::TypeText { .. } => true,
            Action::PressKey { key, .. } => is_character(key),
            _ => false,
        };
        let is_secret = asks_for_secret || (is_typing && described.iter().any(|one| one.is_secret));
        return Ok((
            outcome,
            ActionTargets { targets: described.into_iter().map(|one| one.target).collect(), is_secret },
        ));
    }
}

async fn wait_for_target<'t>(
    tab: &'t Tab,
    parameter: &str,
    selector: &str,
    deadline: Deadline,
) -> Result<DescribedTarget<'t>, BrowserError> {
    let turn = tokio::time::timeout(deadline.remaining(), tab.turn.lock());
    let _turn = turn.await.map_err(|_| deadline.timeout("another action in this tab to finish"))?;
    loop {
        let element = tab.attached(selector, deadline).await?;
        if let Some(described) = tab.describe_target(&element, parameter, selector).await? {
            return Ok(described);
        }
        if deadline.is_over() {
            return Err(deadline.timeout("an element that does not move"));
        }
    }
}

/// Waits for an element, which may not exist before or after; it is described while it exists.
async fn wait(
    tab: &Tab,
    selector: String,
    state: ElementState,
    request: ActionRequest,
) -> Result<(ActionOutcome, ActionTargets), BrowserError> {
    let describe = async || {
        wait_for_target(tab, "selector", &selector, Deadline::after(DESCRIBE_TIMEOUT))
            .await
            .ok()
            .map(|described| described.target)
    };
    let is_removed = matches!(state, ElementState::Hidden | ElementState::Detached);
    let before = if is_removed { describe().await } else { None };
    let outcome = tab.act(request).await?;
    let target = if is_removed { before } else { describe().await };
    Ok((outcome, ActionTargets { targets: target.into_iter().collect(), is_secret: false }))
}

/// Whether a key inserts a single character.
fn is_character(key: &str) -> bool {
    key.strip_prefix("Shift+").unwrap_or(key).chars().count() == 1
}

fn mentions_secret(message: &str) -> bool {
    let message = message.to_lowercase();
    ["password", "passphrase", "passcode", "passwort", "secret", "one-time code"]
        .iter()
        .any(|name| message.contains(name))
}
