//! Turns that wait for an approval. A parked turn keeps nothing in memory: its state is a row, so it survives a restart
//! and any replica can resume it.

use std::sync::Arc;

use agentd_store::Tx;
use serde::{Deserialize, Serialize};

use super::context::TurnContext;
use super::conversation::Conversation;
use super::log::Log;
use super::recall::TurnRecall;
use super::usage::{Spent, UsageLedger};
use crate::engine::error::EngineError;
use crate::engine::model::{Approval, CallProgress, ToolUse};
use crate::engine::prompt::Prompt;
use crate::engine::recall::Recalled;
use crate::engine::store;

/// Stored state of a parked turn.
#[derive(Serialize, Deserialize)]
pub(super) struct ParkedTurn {
    pub(super) prompt: Prompt,
    pub(super) tools: ToolUse,
    #[serde(flatten)]
    pub(super) log: Log,
    pub(super) calls: Vec<CallProgress>,
    pub(super) spent: Spent,
    #[serde(default)]
    pub(super) recalled: Option<Recalled>,
    /// Keys of the history entries, assigned by the turn sink.
    #[serde(default)]
    pub(super) keys: Vec<u64>,
}

pub(super) enum Parked {
    Yes,
    /// The decisions arrived before the turn was parked.
    AlreadyDecided(Vec<Approval>),
}

enum ParkError {
    AlreadyDecided,
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for ParkError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

/// Parks a turn that only waits for approvals.
pub(super) async fn park(
    context: &TurnContext,
    conversation: &Conversation,
    log: &Log,
    usage: &UsageLedger,
    recall: &TurnRecall,
    calls: &[CallProgress],
) -> Result<Parked, EngineError> {
    let state = ParkedTurn {
        prompt: conversation.prompt.clone(),
        tools: context.tools.clone(),
        log: log.clone(),
        calls: calls.to_vec(),
        spent: usage.spent(),
        recalled: recall.recalled().cloned(),
        keys: conversation.keys().to_vec(),
    };
    let state: Arc<str> = serde_json::to_string(&state).map_err(|_| EngineError::Lost)?.into();
    let db = &context.engine.context.db;
    let session = Arc::clone(&context.session);
    let parked = db
        .write(async move |tx: &mut Tx| {
            if !store::approvals::lock_pending(tx, &session.id).await? {
                return Err(ParkError::AlreadyDecided);
            }
            let now = tx.clock().now();
            match store::parked::park(tx, &session.id, &session.owner, &state, now).await? {
                true => Ok(()),
                false => Err(ParkError::Engine(EngineError::Lost)),
            }
        })
        .await;
    match parked {
        Ok(()) => {
            tracing::debug!(session = %context.session.id, "turn parked for an approval");
            Ok(Parked::Yes)
        }
        Err(ParkError::AlreadyDecided) => {
            let mut read = db.read().await?;
            Ok(Parked::AlreadyDecided(store::approvals::list_of_session(&mut read, &context.session.id).await?))
        }
        Err(ParkError::Engine(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_of_a_parked_turn_is_stable() {
        let stored = concat!(
            r#"{"prompt":{"system":"S","messages":[{"role":"user","content":"q"}],"is_cut":false,"notes":[],"#,
            r#""summary":null,"recalled":null,"origins":[0],"sources":[],"has_untrusted_summary":false,"#,
            r#""hosts":["example.com"]},"tools":"asking","text":"a\n\nb","round_text":"b","next_seq":5,"#,
            r#""rounds":[{"text":"a","calls":[{"id":"0.0","tool":"t","input":{"n":1.5},"output":{"text":"x"},"#,
            r#""status":"done","untrusted_source":null,"duration_ms":7,"approval":null}]}],"calls":[],"#,
            r#""spent":{"input_tokens":1,"output_tokens":2},"recalled":null,"keys":[18446744073709551615]}"#,
        );
        let parked: ParkedTurn = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&parked).unwrap(), stored);
    }
}
