//! Welcome messages of agents, outside of conversations.

use std::time::Duration;

use agentd_engine::engine::{HistoryMessage, SessionId, SessionStatus, StartTurn};
use agentd_store::{Recorder, Tx};

use super::super::error::ChatError;
use super::Chat;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_OUTPUT_TOKENS: u32 = 200;

impl Chat {
    /// Lets an agent write a welcome. Only its usage and, for a day, its log are retained.
    ///
    /// The turn is cancelled when the client disconnects; `instead_of` is such an earlier attempt.
    ///
    /// # Errors
    /// The agent is unknown, the budget is used up, no model is available, the model does not answer, or the database
    /// fails.
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
            max_output_tokens: Some(MAX_OUTPUT_TOKENS),
            ..StartTurn::auxiliary(agent, vec![HistoryMessage::User(request)]).with_key(key_id)
        };
        let open = async move |tx: &mut Tx, session: &SessionId| {
            match &instead_of {
                Some(earlier) => recorder.record_instead_of(tx, session, earlier.as_str()).await?,
                None => recorder.record(tx, session).await?,
            }
            Ok::<_, ChatError>(())
        };
        self.0.engine.answer(turn, ANSWER_TIMEOUT, open).await
    }

    /// Waits for an earlier welcome and returns its text; `None` if it was cancelled before it was written.
    ///
    /// # Errors
    /// `NoAnswer` if it ended with an error or its log was deleted.
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
