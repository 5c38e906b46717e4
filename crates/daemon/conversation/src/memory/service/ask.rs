//! Auxiliary call of an agent's model, outside any conversation.

use std::sync::Arc;
use std::time::Duration;

use agentd_engine::agents::Agent;
use agentd_engine::engine::{EngineError, HistoryMessage, NoAnswer, SessionId, StartTurn};
use agentd_store::{StoreError, Tx};

use super::Memory;

/// Maximum duration of a call; a slower model counts as unavailable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT_TOKENS: u32 = 1_000;

/// Error that is only logged.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Memory {
    /// Returns the answer of the agent's model; `None` if it fails for any reason.
    pub(crate) async fn ask_model(&self, agent: Arc<Agent>, rules: &str, question: String) -> Option<String> {
        let question = vec![HistoryMessage::Note(rules.to_owned()), HistoryMessage::User(question)];
        let turn = StartTurn { max_output_tokens: Some(MAX_OUTPUT_TOKENS), ..StartTurn::auxiliary(agent, question) };
        let open = async |_: &mut Tx, _: &SessionId| Ok::<_, AskError>(());
        match self.engine().answer(turn, ANSWER_TIMEOUT, open).await {
            Ok(text) => Some(text),
            Err(error) => {
                tracing::debug!(%error, "auxiliary model call failed; continuing without it");
                None
            }
        }
    }
}
