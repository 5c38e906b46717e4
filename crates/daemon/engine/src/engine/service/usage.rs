//! Tokens, cost and duration of a turn.

use agentd_store::{Read, StoreError};

use super::Engine;
use crate::engine::model::{SessionId, StepKind, StoredAttempt, TurnUsage, elapsed_ms};
use crate::engine::store;

impl Engine {
    /// Model, tokens, cost and duration of a turn; `None` once its session is deleted.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn turn_usage(&self, read: &mut Read, id: &SessionId) -> Result<Option<TurnUsage>, StoreError> {
        let Some(session) = store::find_session(read, id).await? else { return Ok(None) };
        let mut usage = TurnUsage {
            agent_id: session.agent_id,
            provider: session.provider,
            model: session.model,
            input_tokens: 0,
            output_tokens: 0,
            cost_micro_usd: Some(0),
            duration_ms: elapsed_ms(Some(session.started_at), session.completed_at),
        };
        for step in store::steps::list_steps(read, id).await? {
            if step.kind != StepKind::ModelCall {
                continue;
            }
            // Another version of the daemon may have stored it in another form.
            let Ok(attempt) = serde_json::from_value::<StoredAttempt>(step.data) else { continue };
            usage.input_tokens += attempt.usage.input_tokens;
            usage.output_tokens += attempt.usage.output_tokens;
            usage.cost_micro_usd = usage.cost_micro_usd.zip(attempt.cost_micro_usd).map(|(sum, cost)| sum + cost);
        }
        Ok(Some(usage))
    }
}
