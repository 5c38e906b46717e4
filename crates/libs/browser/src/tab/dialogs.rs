//! Dialogs: kept open for somebody to answer, and answered when nobody does.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::json;

use super::{Deadline, Dialog, DialogAnswer, PreparedAnswer, Tab};
use crate::BrowserError;
use crate::cdp::SessionId;
use crate::shared::QUICK;

impl Tab {
    pub(super) fn dialog_opened(self: &Arc<Self>, mut dialog: Dialog, session: SessionId) {
        // Whoever leaves a page has decided to; the page is not asked.
        let leaves = dialog.kind == "beforeunload";
        let mut answer = leaves.then_some(PreparedAnswer { accept: true, prompt_text: None });
        let mut serial = 0;
        self.state.send_modify(|state| {
            answer = answer.take().or_else(|| state.prepared_answer.take());
            // Nobody has to be told that it is open.
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
            if tokio::time::timeout(tab.shared.dialog_time, answered).await.is_err() {
                tab.state.send_modify(|state| {
                    state.dialog_answered(DialogAnswer::DismissedUnanswered);
                    state.unreported = state.dialogs.back().cloned();
                });
                tab.answer(&session, &PreparedAnswer { accept: false, prompt_text: None }).await;
            }
        });
    }

    /// Answers the dialog that is open, or else the next one.
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
            Err(_) => Err(deadline.timeout("the end of the dialog")),
        }
    }

    async fn answer(&self, session: &str, answer: &PreparedAnswer) {
        let mut parameters = json!({"accept": answer.accept});
        if let Some(text) = &answer.prompt_text {
            parameters["promptText"] = text.as_str().into();
        }
        let connection = &self.shared.connection;
        let told = connection.call::<IgnoredAny>(Some(session), "Page.handleJavaScriptDialog", parameters, QUICK).await;
        if let Err(error) = told {
            tracing::debug!(%error, "a dialog was not there any more");
        }
    }
}
