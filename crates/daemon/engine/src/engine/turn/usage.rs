//! Token usage of a turn: total usage, usage that is not stored yet, and the reservation for the next call.
//!
//! A reservation is made before each call. It is settled when the usage of the call is stored, and released if the turn
//! ends in any other way.

use agentd_llm::{ModelError, ModelErrorCode};
use agentd_store::{StoreError, Tx};
use serde::{Deserialize, Serialize};

use super::context::TurnContext;
use crate::agents::Agent;
use crate::engine::call::CallOptions;
use crate::engine::model::{Attempt, Session, SessionId, Step};
use crate::engine::prompt::{Prompt, tool_tokens};
use crate::engine::state::EngineState;
use crate::engine::store;
use crate::providers::{PlannedCall, Reservation};

/// Total tokens of a turn's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Default)]
pub(super) struct UsageLedger {
    spent: Spent,
    unstored: UnstoredUsage,
    /// Set if a budget applies.
    reservation: Option<Reservation>,
}

/// Steps of a turn that are not stored yet.
#[derive(Debug, Clone, Default)]
pub(super) struct UnstoredUsage {
    attempts: Vec<Attempt>,
    others: Vec<Step>,
    has_reserved: bool,
}

impl UsageLedger {
    pub(super) fn new(reservation: Option<Reservation>) -> Self {
        Self { reservation, ..Self::default() }
    }

    /// Restores the ledger of a parked turn.
    pub(super) fn resumed(spent: Spent) -> Self {
        Self { spent, ..Self::default() }
    }

    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Adds completed attempts, each once.
    pub(super) fn add(&mut self, context: &TurnContext, attempts: Vec<Attempt>) {
        for attempt in &attempts {
            context.engine.record_call(&context.session, context.model.options(), attempt);
            self.spent.input_tokens += attempt.usage.input_tokens;
            self.spent.output_tokens += attempt.usage.output_tokens;
        }
        self.unstored.attempts.extend(attempts);
    }

    pub(super) fn add_step(&mut self, step: Step) {
        self.unstored.others.push(step);
    }

    pub(super) fn has_unstored_attempts(&self) -> bool {
        !self.unstored.attempts.is_empty()
    }

    /// Takes unstored usage for a transaction that stores it. Afterwards call [`Self::stored`] or [`Self::put_back`];
    /// no call may be in progress in between.
    pub(super) fn take_unstored(&mut self) -> UnstoredUsage {
        let has_reserved = self.reservation.is_some();
        UnstoredUsage { has_reserved, ..std::mem::take(&mut self.unstored) }
    }

    pub(super) fn stored(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settled();
        }
    }

    pub(super) fn put_back(&mut self, unstored: UnstoredUsage) {
        self.unstored = unstored;
    }

    pub(super) fn into_attempts(self) -> Vec<Attempt> {
        self.unstored.attempts
    }

    /// Reserves the maximum tokens of a call; returns its options limited to the budgets.
    pub(super) async fn reserve(
        &mut self,
        context: &TurnContext,
        options: CallOptions,
        prompt: &Prompt,
    ) -> Result<CallOptions, ModelError> {
        let tokens = |attempt: &Attempt| attempt.usage.input_tokens + attempt.usage.output_tokens;
        let call = PlannedCall {
            unrecorded: self.unstored.attempts.iter().map(tokens).sum(),
            ..planned_call(&context.session.id, &context.agent, &context.session.provider, &options, prompt)
        };
        match context.engine.providers.reserve(&call, &mut self.reservation).await {
            Ok(()) => Ok(self.within_budget(options)),
            Err(error) => Err(ModelError::new(ModelErrorCode::RateLimit, error.to_string())),
        }
    }

    /// Limits the options of a call to its reservation: a budget may reduce its output.
    pub(super) fn within_budget(&self, mut options: CallOptions) -> CallOptions {
        let granted = self.reservation.as_ref().and_then(|reservation| reservation.max_output_tokens);
        options.max_output_tokens = granted.into_iter().chain(options.max_output_tokens).min();
        options
    }
}

impl UnstoredUsage {
    /// Stores the steps and settles the reservation.
    pub(super) async fn store(&self, tx: &mut Tx, engine: &EngineState, session: &Session) -> Result<(), StoreError> {
        for attempt in &self.attempts {
            engine.record_usage(tx, session, attempt).await?;
        }
        for step in &self.others {
            store::insert_step(tx, &session.id, step).await?;
        }
        if self.has_reserved {
            engine.providers.settle_reservation(tx, session.id.as_str()).await?;
        }
        Ok(())
    }
}

/// Describes the first call of a turn with this prompt for its reservation.
pub(super) fn planned_call(
    id: &SessionId,
    agent: &Agent,
    provider: &str,
    options: &CallOptions,
    prompt: &Prompt,
) -> PlannedCall {
    PlannedCall {
        id: id.to_string(),
        agent_id: agent.id.to_string(),
        agent_limit: agent.profile.daily_token_limit,
        unrecorded: 0,
        provider: provider.to_owned(),
        model: options.model.clone(),
        prompt: prompt.tokens() + tool_tokens(&options.tools),
        messages: prompt.message_tokens(),
        max_output_tokens: options.max_output_tokens,
    }
}
