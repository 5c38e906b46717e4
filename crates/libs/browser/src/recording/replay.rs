//! Doing again what was recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use parking_lot::Mutex;
use serde::Deserialize;

use super::find::{Drift, Tried, renamed};
use super::model::{RecordedStep, RecordedTarget};
use super::tabs::Tabs;
use crate::action::locate::pause;
use crate::action::{Action, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::error::millis;
use crate::selector::shortened;
use crate::shared::QUICK;
use crate::tab::{Argument, Deadline, Element, Invoked};
use crate::{ActionOutcome, ActionRequest, BrowserError, Context, ElementState, Tab};

/// For a popup to be opened by the step before.
const POPUP_LIMIT: Duration = Duration::from_secs(10);

/// A replay that runs: which tab stands for which of those that were recorded.
#[derive(Debug)]
pub struct Replay {
    tabs: Mutex<Tabs>,
    known: HashMap<u32, String>,
}

/// Where a step is to be done.
#[derive(Debug)]
pub enum StepTab {
    There(Arc<Tab>),
    /// In a tab that nobody has opened yet; it showed this address.
    New {
        url: String,
    },
}

/// A step that was done again.
#[derive(Debug)]
pub struct Replayed {
    pub outcome: ActionOutcome,
    pub drift: Vec<Drift>,
}

/// Why a step could not be done again, and which selectors were of no use.
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

    /// The tab of a step. One that a page opened is waited for.
    ///
    /// # Errors
    /// It is closed, or was not opened.
    pub async fn tab(&mut self, context: &Context, step: &RecordedStep) -> Result<StepTab, BrowserError> {
        if let Some(id) = self.known.get(&step.tab) {
            return Ok(StepTab::There(context.tab(id)?));
        }
        let Some(origin) = &step.tab_origin else { return Ok(StepTab::New { url: String::new() }) };
        let opener = origin.popup.and_then(|popup| Some((self.known.get(&popup.opener)?, popup.index)));
        let Some((opener, index)) = opener else { return Ok(StepTab::New { url: origin.url.clone() }) };
        let is_meant = |tab: &crate::TabInfo| {
            let mut tabs = self.tabs.lock();
            tabs.look(context.tabs());
            tabs.popup_of(opener, index) == Some(tab.tab_id.as_str())
        };
        let tab = context.wait_for_tab(POPUP_LIMIT, is_meant).await?;
        self.follow(step, &tab);
        Ok(StepTab::There(tab))
    }

    /// This tab stands for that of the step from now on.
    pub fn follow(&mut self, step: &RecordedStep, tab: &Tab) {
        self.known.insert(step.tab, tab.id().to_owned());
    }

    /// Does `request`, which is that of the step, to the elements that were recorded.
    ///
    /// # Errors
    /// They are not there, or the action could not be done.
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
            _ => again(tab, step, &request, deadline).await,
        };
        self.tabs.lock().look(context.tabs());
        done
    }

    /// A small JPEG of a page that shows none of these secrets.
    pub async fn picture<'s>(&self, tab: &Tab, secrets: impl IntoIterator<Item = &'s Secret>) -> Option<Vec<u8>> {
        let secrets: Vec<&str> =
            secrets.into_iter().map(Secret::expose).filter(|text| text.chars().count() >= 4).collect();
        tab.small_picture(&secrets).await
    }
}

async fn again(
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
                let _turn = turn.await.map_err(|_| deadline.timeout("the end of another action in this tab"))?;
                tab.find_again(target, deadline, &mut tried).await
            };
            let found = found.map_err(|error| ReplayError { error, tried })?;
            stays_home(tab, step, target, &found.element, deadline)?;
            names.push((found.pin.selector(), target.description()));
            *selector = found.pin.selector();
            drift.extend(found.drift);
            pins.push(found.pin);
        }
        if !pins.is_empty() {
            bound.timeout_ms = Some(millis(deadline.remaining()).max(1));
        }
        match tab.act(bound).await {
            // It went, or became something else, before anything was done to it.
            Err(BrowserError::StaleRef { selector, .. })
                if names.iter().any(|(pinned, _)| *pinned == selector) && !deadline.is_over() => {}
            done => return Ok(Replayed { outcome: done.map_err(|error| renamed(error, &names))?, drift }),
        }
    }
}

/// A secret goes to nobody but the host that it was typed for.
fn stays_home(
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
    let place =
        |url: &str| url::Url::parse(url).ok().map(|url| (url.scheme().to_owned(), url.host_str().map(str::to_owned)));
    if place(recorded) == place(&now) {
        return Ok(());
    }
    Err(BrowserError::NotActionable {
        selector: target.description(),
        missing: format!("a secret that was typed on {} is not given to {}", shortened(recorded), shortened(&now)),
        waited_ms: deadline.waited_ms(),
    })
}

/// Waits until what was recorded is as it was waited for.
async fn wait(
    tab: &Tab,
    target: &RecordedTarget,
    wanted: ElementState,
    deadline: Deadline,
) -> Result<Replayed, ReplayError> {
    let (mut tried, mut drift) = (Vec::new(), None);
    let waiting = async {
        for look in 0.. {
            pause(look, deadline).await;
            if look > 0 && deadline.is_over() {
                break;
            }
            tried.clear();
            let found = tab.look_for(target, &mut tried).await?;
            let states = match &found {
                Some(found) => {
                    let arguments = [Argument::Element(&found.element)];
                    tab.invoke::<States>(&found.element.frame, "states", &arguments, QUICK).await?
                }
                None => Invoked::Gone,
            };
            let States { attached, visible } = match states {
                Invoked::Done(states) => states,
                Invoked::Gone => States { attached: false, visible: false },
            };
            let is_there = match wanted {
                ElementState::Visible => visible,
                ElementState::Hidden => !visible,
                ElementState::Attached => attached,
                ElementState::Detached => !attached,
            };
            if is_there {
                drift = found.and_then(|found| found.drift);
                return Ok(());
            }
        }
        Err(deadline.timeout(format!("what was waited for, with {},", target.description())))
    };
    match tab.outcome_of(waiting, deadline).await {
        Ok(outcome) => Ok(Replayed { outcome, drift: drift.into_iter().collect() }),
        Err(error) => Err(ReplayError { error, tried }),
    }
}
