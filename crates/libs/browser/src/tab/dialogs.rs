//! JavaScript dialogs: kept open until a client answers, and dismissed after a time limit.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::json;

use super::{Deadline, Dialog, DialogAnswer, PreparedAnswer, Tab};
use crate::BrowserError;
use crate::cdp::SessionId;
use crate::shared::COMMAND_TIMEOUT;

impl Tab {
    pub(super) fn dialog_opened(self: &Arc<Self>, mut dialog: Dialog, session: SessionId) {
        // Leaving the page was requested, so the page is not asked.
        let is_unload = dialog.kind == "beforeunload";
        let mut answer = is_unload.then_some(PreparedAnswer { accept: true, prompt_text: None });
        let mut serial = 0;
        self.state.send_modify(|state| {
            answer = answer.take().or_else(|| state.prepared_answer.take());
            // An answered dialog must not be reported as open.
            dialog.answer = answer.as_ref().map(PreparedAnswer::kind);
            state.dialog_opened(dialog);
            serial = state.dialog_count;
        });
        let tab = Arc::clone(self);
        tokio::spawn(async move {
            if let Some(answer) = answer {
                tab.answer(&session, &answer).await;
                return;
            }
            let mut state = tab.state.subscribe();
            let answered = state.wait_for(|state| {
                state.dialog_count != serial
                    || state.open_dialog().is_none()
                    || state.is_closed
                    || state.ended.is_some()
            });
            if tokio::time::timeout(tab.shared.dialog_timeout, answered).await.is_err() {
                tab.state.send_modify(|state| {
                    state.dialog_answered(DialogAnswer::DismissedUnanswered);
                    state.unreported = state.dialogs.back().cloned();
                });
                tab.answer(&session, &PreparedAnswer { accept: false, prompt_text: None }).await;
            }
        });
    }

    /// Answers the open dialog, or else the next one.
    pub(crate) async fn handle_dialog(
        &self,
        accept: bool,
        prompt_text: Option<String>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let answer = PreparedAnswer { accept, prompt_text };
        let is_open = self.state.borrow().open_dialog().is_some();
        if !is_open {
            self.state.send_modify(|state| state.prepared_answer = Some(answer));
            return Ok(());
        }
        let serial = self.state.borrow().dialog_count;
        // Any session of the page can answer.
        self.answer(&self.session, &answer).await;
        let mut state = self.state.subscribe();
        let closed = state.wait_for(|state| {
            state.dialog_count != serial || state.open_dialog().is_none() || state.ended.is_some() || state.is_closed
        });
        match tokio::time::timeout(deadline.remaining(), closed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(deadline.timeout("the dialog to close")),
        }
    }

    async fn answer(&self, session: &str, answer: &PreparedAnswer) {
        let mut parameters = json!({"accept": answer.accept});
        if let Some(text) = &answer.prompt_text {
            parameters["promptText"] = text.as_str().into();
        }
        let connection = &self.shared.connection;
        let outcome = connection
            .call::<IgnoredAny>(Some(session), "Page.handleJavaScriptDialog", parameters, COMMAND_TIMEOUT)
            .await;
        if let Err(error) = outcome {
            tracing::debug!(%error, "failed to answer dialog");
        }
    }
}
