//! One action, from its request to its outcome.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Action, ActionOutcome, ActionRequest, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use crate::action::pointer::Click;
use crate::tab::{Deadline, Invoked, LoadState, OBJECTS, Tab, TabState};
use crate::{BrowserError, address};

const DEFAULT_IDLE_MS: u64 = 500;
/// After its time an action may still say what was missing; a page that hangs does not let it.
const GRACE: Duration = Duration::from_millis(500);
/// For a title, which is nice to have.
const TITLE_LIMIT: Duration = Duration::from_secs(1);
const TITLE_LOOKS: usize = 10;
const TITLE_PAUSE: Duration = Duration::from_millis(10);

/// What had happened in a tab before an action.
#[derive(Debug, Clone, Copy)]
struct Before {
    navigations: u64,
    dialogs: u64,
    refusals: u64,
}

impl Tab {
    /// Does one thing, when those that came before are done.
    ///
    /// # Errors
    /// Says what was missing; see [`BrowserError`].
    pub async fn act(&self, request: impl Into<ActionRequest>) -> Result<ActionOutcome, BrowserError> {
        let request = request.into();
        let limit = request.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if limit == 0 || limit > MAX_TIMEOUT_MS {
            return Err(BrowserError::Invalid(format!("timeout_ms is 1 to {MAX_TIMEOUT_MS}")));
        }
        let deadline = Deadline::after(Duration::from_millis(limit));
        // A dialog is answered while an action waits for it.
        if let Action::HandleDialog { accept, prompt_text } = request.action {
            let before = self.before();
            self.handle_dialog(accept, prompt_text, deadline).await?;
            return self.outcome(before, deadline).await;
        }
        let _turn = tokio::time::timeout(deadline.remaining(), self.turn.lock())
            .await
            .map_err(|_| deadline.timeout("the end of another action in this tab"))?;
        let before = self.before();
        self.input_sent.store(false, Ordering::Relaxed);
        self.state.send_modify(TabState::forget_own_loads);
        let performed = self.guarded(self.perform(&request.action, deadline));
        let done = match tokio::time::timeout(deadline.remaining() + GRACE, performed).await {
            Ok(done) => done,
            Err(_) => Err(deadline.timeout("an answer of the page")),
        };
        let sessions = self.sessions();
        self.release_objects(OBJECTS, &sessions);
        match done {
            Ok(()) => {}
            // The action was done, and the page asks something because of it.
            Err(BrowserError::DialogOpen { .. }) if self.before().dialogs != before.dialogs => {}
            // The page closed its window because of what was done in it.
            Err(BrowserError::NoTab(_)) if self.input_sent.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
        self.outcome(before, deadline).await
    }

    /// How the page is after something that is no action of its own.
    pub(crate) async fn outcome_of(
        &self,
        work: impl Future<Output = Result<(), BrowserError>>,
        deadline: Deadline,
    ) -> Result<ActionOutcome, BrowserError> {
        let before = self.before();
        let done = work.await;
        self.release_objects(OBJECTS, &self.sessions());
        done?;
        self.outcome(before, deadline).await
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

    fn before(&self) -> Before {
        let state = self.state.borrow();
        Before { navigations: state.navigations, dialogs: state.dialog_count, refusals: state.refusals }
    }

    /// A navigation that the action began is waited for, so that the next one finds its page.
    async fn settle(&self, before: Before, deadline: Deadline) {
        let arrived = self.until(deadline, "the page", |state| {
            let has_left = state.navigations != before.navigations;
            (!state.is_navigating && (!has_left || state.reached.contains(&LoadState::DomContentLoaded))).then_some(())
        });
        // A page that takes longer than the action may is no failure of the action.
        let _ = arrived.await;
    }

    /// The title of the page that an action led to; what the browser says of it, where it does not answer.
    async fn settled_title(&self, before: Before, deadline: Deadline) -> String {
        for _ in 0..TITLE_LOOKS {
            self.settle(before, deadline).await;
            let seen = self.before().navigations;
            let limit = TITLE_LIMIT.min(deadline.remaining());
            match self.invoke::<String>(&self.main_frame(), "title", &[], limit).await {
                // It went elsewhere meanwhile.
                Ok(Invoked::Done(_)) if self.before().navigations != seen => {}
                Ok(Invoked::Done(title)) => return title,
                Ok(Invoked::Gone) | Err(BrowserError::Protocol(_)) => {
                    tokio::time::sleep(TITLE_PAUSE.min(deadline.remaining())).await
                }
                Err(_) => break,
            }
        }
        self.state.borrow().title.clone()
    }

    /// # Errors
    /// [`BrowserError::AddressRefused`] if the action led to such an address.
    async fn outcome(&self, before: Before, deadline: Deadline) -> Result<ActionOutcome, BrowserError> {
        let title = self.settled_title(before, deadline).await;
        if let Some(url) = self.state.borrow().refused_since(before.refusals) {
            return Err(address::refused(url));
        }
        let mut dialog = None;
        self.state.send_if_modified(|state| {
            // The browser tells of titles with navigations alone; a script may have set another one.
            title.clone_into(&mut state.title);
            let is_new = state.dialog_count != before.dialogs;
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
            navigated: state.navigations != before.navigations,
        })
    }
}
