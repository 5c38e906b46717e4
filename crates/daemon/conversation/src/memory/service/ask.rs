//! One question to an agent's model, outside any conversation.

use std::sync::Arc;
use std::time::Duration;

use agentd_engine::agents::Agent;
use agentd_engine::engine::{EngineError, HistoryMessage, NoAnswer, SessionId, StartTurn};
use agentd_store::{StoreError, Tx};

use super::Memory;

/// A model that takes longer does not answer.
const LIMIT: Duration = Duration::from_secs(60);
const MOST_OUTPUT: u32 = 1_000;

/// Only told to the log.
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
    /// What the agent's model answers; `None` where it does not, whatever the reason.
    pub(crate) async fn ask_model(&self, agent: Arc<Agent>, rules: &str, question: String) -> Option<String> {
        let question = vec![HistoryMessage::Note(rules.to_owned()), HistoryMessage::User(question)];
        let turn = StartTurn { max_output_tokens: Some(MOST_OUTPUT), ..StartTurn::aside(agent, question) };
        let open = async |_: &mut Tx, _: &SessionId| Ok::<_, AskError>(());
        match self.engine().answer(turn, LIMIT, open).await {
            Ok(text) => Some(text),
            Err(error) => {
                tracing::debug!(%error, "memory goes on without a model");
                None
            }
        }
    }
}
