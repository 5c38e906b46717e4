//! Execution of an action, from the request to the outcome.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Action, ActionOutcome, ActionRequest, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::action::pointer::Click;
use crate::tab::{ACTION_OBJECT_GROUP, Deadline, Invoked, LoadState, Tab, TabState};
use crate::{BrowserError, address};

const DEFAULT_IDLE_MS: u64 = 500;
/// Time after the deadline in which an action can still report what was missing; a hanging page cannot.
const GRACE: Duration = Duration::from_millis(500);
/// Time limit for reading the title, which is optional.
const TITLE_LIMIT: Duration = Duration::from_secs(1);
const TITLE_ATTEMPTS: usize = 10;
const TITLE_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Counters of a tab before an action.
#[derive(Debug, Clone, Copy)]
struct Baseline {
    navigations: u64,
    dialogs: u64,
    refusals: u64,
}

impl Tab {
    /// Performs an action after all earlier actions in this tab are done.
    ///
    /// # Errors
    /// [`BrowserError`], which states what was missing.
    pub async fn act(&self, request: impl Into<ActionRequest>) -> Result<ActionOutcome, BrowserError> {
        let request = request.into();
        let limit = request.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if limit == 0 || limit > MAX_TIMEOUT_MS {
            return Err(BrowserError::Invalid(format!("timeout_ms must be between 1 and {MAX_TIMEOUT_MS}")));
        }
        let deadline = Deadline::after(Duration::from_millis(limit));
        // A dialog must be answered while another action waits for it.
        if let Action::HandleDialog { accept, prompt_text } = request.action {
            let baseline = self.baseline();
            self.handle_dialog(accept, prompt_text, deadline).await?;
            return self.outcome(baseline, deadline).await;
        }
        let _turn = tokio::time::timeout(deadline.remaining(), self.turn.lock())
            .await
            .map_err(|_| deadline.timeout("another action in this tab to finish"))?;
        let baseline = self.baseline();
        self.input_sent.store(false, Ordering::Relaxed);
        self.state.send_modify(TabState::reset_own_loads);
        let performed = self.guarded(self.perform(&request.action, deadline));
        let done = match tokio::time::timeout(deadline.remaining() + GRACE, performed).await {
            Ok(done) => done,
            Err(_) => Err(deadline.timeout("a response of the page")),
        };
        let sessions = self.sessions();
        self.release_objects(ACTION_OBJECT_GROUP, &sessions);
        match done {
            Ok(()) => {}
            // The action succeeded, and the page opened a dialog in response.
            Err(BrowserError::DialogOpen { .. }) if self.baseline().dialogs != baseline.dialogs => {}
            // The page closed its window in response to the action.
            Err(BrowserError::NoTab(_)) if self.input_sent.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
        self.outcome(baseline, deadline).await
    }

    /// Runs work that is not an [`Action`], and returns the state of the page afterwards.
    pub(crate) async fn run_with_outcome(
        &self,
        work: impl Future<Output = Result<(), BrowserError>>,
        deadline: Deadline,
    ) -> Result<ActionOutcome, BrowserError> {
        let baseline = self.baseline();
        let done = work.await;
        self.release_objects(ACTION_OBJECT_GROUP, &self.sessions());
        done?;
        self.outcome(baseline, deadline).await
    }

    async fn perform(&self, action: &Action, deadline: Deadline) -> Result<(), BrowserError> {
        match action {
            Action::Goto { url, wait_until } => self.goto(url, wait_until.unwrap_or_default(), deadline).await,
            Action::Click { selector } => self.click(selector, Click::SINGLE, deadline).await,
            Action::DoubleClick { selector } => self.click(selector, Click::DOUBLE, deadline).await,
            Action::RightClick { selector } => self.click(selector, Click::RIGHT, deadline).await,
            Action::Hover { selector } => self.hover(selector, deadline).await,
            Action::TypeText { selector, text, clear, delay_ms } => {
                self.type_text(selector, text, clear.unwrap_or_default(), delay_ms.map(Duration::from_millis), deadline)
                    .await
            }
            Action::PressKey { key, selector } => self.press_key(key, selector.as_deref(), deadline).await,
            Action::SelectOption { selector, value, label, index } => {
                self.select_option(selector, value.as_deref(), label.as_deref(), *index, deadline).await
            }
            Action::Check { selector } => self.set_checked(selector, true, deadline).await,
            Action::Uncheck { selector } => self.set_checked(selector, false, deadline).await,
            Action::Scroll { x, y, selector } => self.scroll(*x, *y, selector.as_deref(), deadline).await,
            Action::ScrollToElement { selector } => self.scroll_to(selector, deadline).await,
            Action::DragAndDrop { source, target } => self.drag_and_drop(source, target, deadline).await,
            Action::Focus { selector } => self.focus(selector, deadline).await,
            Action::Blur { selector } => self.blur(selector, deadline).await,
            Action::HandleDialog { .. } => Ok(()),
            Action::WaitForSelector { selector, state } => {
                self.wait_for_selector(selector, state.unwrap_or_default(), deadline).await
            }
            Action::WaitForNavigation { url } => self.wait_for_navigation(url.as_deref(), deadline).await,
            Action::WaitForNetworkIdle { idle_ms } => {
                self.wait_for_network_idle(Duration::from_millis(idle_ms.unwrap_or(DEFAULT_IDLE_MS)), deadline).await
            }
            Action::GoBack => self.go(-1, LoadState::Load, deadline).await,
            Action::GoForward => self.go(1, LoadState::Load, deadline).await,
            Action::Reload => self.reload(LoadState::Load, deadline).await,
            Action::UploadFile { selector, path } => self.upload_file(selector, path, deadline).await,
        }
    }

    fn baseline(&self) -> Baseline {
        let state = self.state.borrow();
        Baseline { navigations: state.navigations, dialogs: state.dialog_count, refusals: state.refusals }
    }

    /// Waits for a navigation that the action started, so that the next action finds its page.
    async fn settle(&self, baseline: Baseline, deadline: Deadline) {
        let arrived = self.wait_until(deadline, "the page", |state| {
            let has_left = state.navigations != baseline.navigations;
            (!state.is_navigating && (!has_left || state.reached.contains(&LoadState::DomContentLoaded))).then_some(())
        });
        // A slow page is not a failure of the action.
        let _ = arrived.await;
    }

    /// Returns the title of the page after the action, or the browser's last known title if the page does not answer.
    async fn settled_title(&self, baseline: Baseline, deadline: Deadline) -> String {
        for _ in 0..TITLE_ATTEMPTS {
            self.settle(baseline, deadline).await;
            let seen = self.baseline().navigations;
            let limit = TITLE_LIMIT.min(deadline.remaining());
            match self.invoke::<String>(&self.main_frame(), "title", &[], limit).await {
                // The page navigated in the meantime.
                Ok(Invoked::Done(_)) if self.baseline().navigations != seen => {}
                Ok(Invoked::Done(title)) => return title,
                Ok(Invoked::Gone) | Err(BrowserError::Protocol(_)) => {
                    tokio::time::sleep(TITLE_RETRY_DELAY.min(deadline.remaining())).await
                }
                Err(_) => break,
            }
        }
        self.state.borrow().title.clone()
    }

    /// # Errors
    /// [`BrowserError::AddressRefused`] if the action led to a refused address.
    async fn outcome(&self, baseline: Baseline, deadline: Deadline) -> Result<ActionOutcome, BrowserError> {
        let title = self.settled_title(baseline, deadline).await;
        if let Some(url) = self.state.borrow().refused_since(baseline.refusals) {
            return Err(address::refused(url));
        }
        let mut dialog = None;
        self.state.send_if_modified(|state| {
            // The browser reports titles only on navigation; a script may have changed it.
            title.clone_into(&mut state.title);
            let is_new = state.dialog_count != baseline.dialogs;
            dialog = if is_new { state.dialogs.back().cloned() } else { state.unreported.take() };
            false
        });
        let state = self.state.borrow();
        Ok(ActionOutcome {
            ok: true,
            url: state.url().to_owned(),
            title,
            duration_ms: deadline.waited_ms(),
            tab_id: self.id().to_owned(),
            dialog,
            navigated: state.navigations != baseline.navigations,
        })
    }
}
