//! Replay of recorded steps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use parking_lot::Mutex;
use serde::Deserialize;

use super::find::{Drift, Tried, with_target_names};
use super::model::{RecordedStep, RecordedTarget};
use super::tabs::Tabs;
use crate::action::locate::pause;
use crate::action::{Action, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::error::millis;
use crate::selector::shortened;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Argument, Deadline, Element, Invoked};
use crate::{ActionOutcome, ActionRequest, BrowserError, Context, ElementState, Tab};

/// Time limit for a popup that the previous step opens.
const POPUP_LIMIT: Duration = Duration::from_secs(10);

/// Active replay with the mapping from recorded tabs to current tabs.
#[derive(Debug)]
pub struct Replay {
    tabs: Mutex<Tabs>,
    known: HashMap<u32, String>,
}

/// Tab of a step.
#[derive(Debug)]
pub enum StepTab {
    There(Arc<Tab>),
    /// A tab to be opened, with the URL that it showed.
    New {
        url: String,
    },
}

/// Outcome of a replayed step.
#[derive(Debug)]
pub struct Replayed {
    pub outcome: ActionOutcome,
    pub drift: Vec<Drift>,
}

/// Failure of a replayed step, with the selectors that were tried.
#[derive(Debug)]
pub struct ReplayError {
    pub error: BrowserError,
    pub tried: Vec<Tried>,
}

impl From<BrowserError> for ReplayError {
    fn from(error: BrowserError) -> Self {
        Self { error, tried: Vec::new() }
    }
}

#[derive(Deserialize)]
struct States {
    attached: bool,
    visible: bool,
}

impl Replay {
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { tabs: Mutex::new(Tabs::new(context.tabs())), known: HashMap::new() }
    }

    /// Returns the tab of a step, and waits for one that a page opens.
    ///
    /// # Errors
    /// The tab is closed, or was not opened in time.
    pub async fn tab(&mut self, context: &Context, step: &RecordedStep) -> Result<StepTab, BrowserError> {
        if let Some(id) = self.known.get(&step.tab) {
            return Ok(StepTab::There(context.tab(id)?));
        }
        let Some(origin) = &step.tab_origin else { return Ok(StepTab::New { url: String::new() }) };
        let opener = origin.popup.and_then(|popup| Some((self.known.get(&popup.opener)?, popup.index)));
        let Some((opener, index)) = opener else { return Ok(StepTab::New { url: origin.url.clone() }) };
        let is_meant = |tab: &crate::TabInfo| {
            let mut tabs = self.tabs.lock();
            tabs.update(context.tabs());
            tabs.popup_of(opener, index) == Some(tab.tab_id.as_str())
        };
        let tab = context.wait_for_tab(POPUP_LIMIT, is_meant).await?;
        self.follow(step, &tab);
        Ok(StepTab::There(tab))
    }

    /// Maps the recorded tab of the step to this tab.
    pub fn follow(&mut self, step: &RecordedStep, tab: &Tab) {
        self.known.insert(step.tab, tab.id().to_owned());
    }

    /// Performs `request`, the request of the step, on the recorded elements.
    ///
    /// # Errors
    /// An element was not found, or the action failed.
    pub async fn act(
        &self,
        context: &Context,
        tab: &Tab,
        step: &RecordedStep,
        request: ActionRequest,
    ) -> Result<Replayed, ReplayError> {
        let limit = request.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
        let deadline = Deadline::after(Duration::from_millis(limit));
        let done = match (&request.action, step.target("selector")) {
            (Action::WaitForSelector { state, .. }, Some(target)) => {
                wait(tab, target, state.unwrap_or_default(), deadline).await
            }
            _ => replay_action(tab, step, &request, deadline).await,
        };
        self.tabs.lock().update(context.tabs());
        done
    }

    /// Returns a small JPEG of the page with these secrets concealed.
    pub async fn picture<'s>(&self, tab: &Tab, secrets: impl IntoIterator<Item = &'s Secret>) -> Option<Vec<u8>> {
        let secrets: Vec<&str> =
            secrets.into_iter().map(Secret::expose).filter(|text| text.chars().count() >= 4).collect();
        tab.small_picture(&secrets).await
    }
}

async fn replay_action(
    tab: &Tab,
    step: &RecordedStep,
    request: &ActionRequest,
    deadline: Deadline,
) -> Result<Replayed, ReplayError> {
    loop {
        let mut bound = request.clone();
        let (mut names, mut pins, mut drift) = (Vec::new(), Vec::new(), Vec::new());
        for (parameter, selector) in bound.action.selectors_mut() {
            let Some(target) = step.target(parameter) else { continue };
            let mut tried = Vec::new();
            let found = {
                let turn = tokio::time::timeout(deadline.remaining(), tab.turn.lock());
                let _turn = turn.await.map_err(|_| deadline.timeout("another action in this tab to finish"))?;
                tab.find_target(target, deadline, &mut tried).await
            };
            let found = found.map_err(|error| ReplayError { error, tried })?;
            check_secret_host(tab, step, target, &found.element, deadline)?;
            names.push((found.pin.selector(), target.description()));
            *selector = found.pin.selector();
            drift.extend(found.drift);
            pins.push(found.pin);
        }
        if !pins.is_empty() {
            bound.timeout_ms = Some(millis(deadline.remaining()).max(1));
        }
        match tab.act(bound).await {
            // The element disappeared or changed before the action.
            Err(BrowserError::StaleRef { selector, .. })
                if names.iter().any(|(pinned, _)| *pinned == selector) && !deadline.is_over() => {}
            done => return Ok(Replayed { outcome: done.map_err(|error| with_target_names(error, &names))?, drift }),
        }
    }
}

/// Checks that a secret is typed only on the host that it was recorded for.
fn check_secret_host(
    tab: &Tab,
    step: &RecordedStep,
    target: &RecordedTarget,
    element: &Element,
    deadline: Deadline,
) -> Result<(), BrowserError> {
    if step.secrets().is_empty() {
        return Ok(());
    }
    let recorded = target.frame_url.as_ref().unwrap_or(&step.url);
    let now = tab.state.borrow().frames.get(&element.frame).map(|frame| frame.url.clone()).unwrap_or_default();
    let origin =
        |url: &str| url::Url::parse(url).ok().map(|url| (url.scheme().to_owned(), url.host_str().map(str::to_owned)));
    if origin(recorded) == origin(&now) {
        return Ok(());
    }
    Err(BrowserError::NotActionable {
        selector: target.description(),
        missing: format!("a secret that was recorded for {} is not sent to {}", shortened(recorded), shortened(&now)),
        waited_ms: deadline.waited_ms(),
    })
}

/// Waits until the recorded element reaches the state.
async fn wait(
    tab: &Tab,
    target: &RecordedTarget,
    wanted: ElementState,
    deadline: Deadline,
) -> Result<Replayed, ReplayError> {
    let (mut tried, mut drift) = (Vec::new(), None);
    let waiting = async {
        for attempt in 0.. {
            pause(attempt, deadline).await;
            if attempt > 0 && deadline.is_over() {
                break;
            }
            tried.clear();
            let found = tab.find_target_once(target, &mut tried).await?;
            let states = match &found {
                Some(found) => {
                    let arguments = [Argument::Element(&found.element)];
                    tab.invoke::<States>(&found.element.frame, "states", &arguments, COMMAND_TIMEOUT).await?
                }
                None => Invoked::Gone,
            };
            let States { attached, visible } = match states {
                Invoked::Done(states) => states,
                Invoked::Gone => States { attached: false, visible: false },
            };
            let is_reached = match wanted {
                ElementState::Visible => visible,
                ElementState::Hidden => !visible,
                ElementState::Attached => attached,
                ElementState::Detached => !attached,
            };
            if is_reached {
                drift = found.and_then(|found| found.drift);
                return Ok(());
            }
        }
        Err(deadline.timeout(format!("{} to reach the expected state", target.description())))
    };
    match tab.run_with_outcome(waiting, deadline).await {
        Ok(outcome) => Ok(Replayed { outcome, drift: drift.into_iter().collect() }),
        Err(error) => Err(ReplayError { error, tried }),
    }
}
