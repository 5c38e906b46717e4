//! A first word of an agent, in no conversation.

use std::time::Duration;

use agentd_engine::engine::{HistoryMessage, SessionId, SessionStatus, StartTurn};
use agentd_store::{Recorder, Tx};

use super::super::error::ChatError;
use super::Chat;

const LIMIT: Duration = Duration::from_secs(30);
const MOST_OUTPUT: u32 = 200;

impl Chat {
    /// Lets an agent write a welcome. Nothing of it is kept but its usage and, for a day, its log.
    ///
    /// When whoever asked goes away, it is cancelled; `instead_of` is such an earlier try.
    ///
    /// # Errors
    /// An unknown agent, a used-up budget, no model, no answer, or the store's refusal.
    pub async fn welcome(
        &self,
        agent: Option<&str>,
        key_id: Option<String>,
        recorder: Recorder<SessionId>,
        instead_of: Option<SessionId>,
    ) -> Result<String, ChatError> {
        let agent = match agent {
            Some(name) => self.0.agents.get(name).await?,
            None => self.0.agents.default_agent().await?,
        };
        let request = format!(
            "Write a short and friendly welcome to {}, in one or two sentences: say who you are and offer your help. \
             Answer with the welcome alone.",
            agent.user_name
        );
        let turn = StartTurn {
            max_output_tokens: Some(MOST_OUTPUT),
            ..StartTurn::aside(agent, vec![HistoryMessage::User(request)]).asked_with(key_id)
        };
        let open = async move |tx: &mut Tx, session: &SessionId| {
            match &instead_of {
                Some(earlier) => recorder.record_instead_of(tx, session, earlier.as_str()).await?,
                None => recorder.record(tx, session).await?,
            }
            Ok::<_, ChatError>(())
        };
        self.0.engine.answer(turn, LIMIT, open).await
    }

    /// Waits for the end of an earlier welcome and answers its text; `None` when it was cut off before it was written.
    ///
    /// # Errors
    /// `NoAnswer` when it ended with an error, or its log is gone.
    pub async fn await_welcome(&self, session: &SessionId) -> Result<Option<String>, ChatError> {
        self.session(session).await?;
        match self.0.engine.read_text(session).await {
            Ok(text) => Ok(Some(text)),
            Err(reason) => match self.session(session).await?.status {
                SessionStatus::Cancelled | SessionStatus::Interrupted => Ok(None),
                _ => Err(reason.into()),
            },
        }
    }
}
