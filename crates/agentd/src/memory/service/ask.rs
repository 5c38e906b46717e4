//! One question to an agent's model, aside from any conversation.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::Tx;

use super::Memory;
use crate::agents::Agent;
use crate::engine::{EngineError, HistoryMessage, SessionId, StartTurn};

/// A model that takes longer does not answer.
const LIMIT: Duration = Duration::from_secs(60);

impl Memory {
    /// What the agent's model answers; `None` where it does not, whatever the reason.
    pub(in crate::memory) async fn ask_model(
        &self,
        agent: Arc<Agent>,
        rules: &str,
        question: String,
    ) -> Option<String> {
        let engine = self.engine();
        let turn =
            StartTurn::aside(agent, vec![HistoryMessage::Note(rules.to_owned()), HistoryMessage::User(question)]);
        let session = match engine.start(turn, async |_: &mut Tx, _: &SessionId| Ok::<_, EngineError>(())).await {
            Ok(session) => session,
            Err(error) => {
                tracing::debug!(%error, "memory goes on without a model");
                return None;
            }
        };
        match tokio::time::timeout(LIMIT, engine.read_text(&session)).await {
            Ok(Ok(text)) => Some(text),
            Ok(Err(error)) => {
                tracing::debug!(%error, "memory goes on without a model");
                None
            }
            Err(_) => {
                tracing::info!(session = %session, "a model that memory asked did not answer in time");
                if let Err(error) = engine.cancel(&session).await {
                    tracing::debug!(%error, "it was just done");
                }
                None
            }
        }
    }
}
