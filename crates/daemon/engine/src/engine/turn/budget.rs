//! What a turn sets aside of the budgets before each of its calls. It is settled where the usage of the call is
//! written, and given back when the turn ends in whatever other way.

use agentd_llm::{ModelError, ModelErrorCode};

use super::Turn;
use crate::agents::Agent;
use crate::engine::call::{Call, CallOptions};
use crate::engine::model::{Purpose, SessionId};
use crate::engine::prompt::{Prompt, tool_tokens};
use crate::providers::PlannedCall;

/// A call of a turn, without its prompt.
pub(super) fn planned_call(id: &SessionId, agent: &Agent, provider: &str, options: &CallOptions) -> PlannedCall {
    PlannedCall {
        id: id.to_string(),
        agent_id: agent.id.to_string(),
        agent_limit: agent.profile.daily_token_limit,
        unrecorded: 0,
        provider: provider.to_owned(),
        model: options.model.clone(),
        prompt: 0,
        messages: 0,
        max_output_tokens: options.max_output_tokens,
    }
}

impl Turn {
    /// A call of the model with the prompt as it is, for which tokens were set aside; the prompt comes back with its
    /// end.
    pub(crate) fn call(&mut self) -> Call {
        let prompt = std::mem::take(&mut self.prompt);
        self.note_call(Purpose::Answer);
        let options = self.within_budget(self.options.clone());
        // After words of an earlier round, some models have nothing to add to the results of tools.
        let has_spoken = !self.log.text.trim().is_empty();
        let backend = std::sync::Arc::clone(&self.backend);
        Call::new(backend, options, prompt).without_halving().allowing_silence(has_spoken)
    }

    /// Sets aside what the next call of the model can use.
    pub(crate) async fn reserve_next(&mut self) -> Result<(), ModelError> {
        let (prompt, messages) = (self.prompt.tokens(), self.prompt.message_tokens());
        self.reserve(self.options.clone(), prompt, messages).await.map(|_| ())
    }

    /// The same for a call besides the reply; answers its options.
    pub(crate) async fn reserve_for(
        &mut self,
        options: CallOptions,
        prompt: &Prompt,
    ) -> Result<CallOptions, ModelError> {
        self.reserve(options, prompt.tokens(), prompt.message_tokens()).await
    }

    async fn reserve(&mut self, options: CallOptions, prompt: u64, messages: u64) -> Result<CallOptions, ModelError> {
        let call = PlannedCall {
            unrecorded: self
                .unrecorded
                .iter()
                .map(|attempt| attempt.usage.input_tokens + attempt.usage.output_tokens)
                .sum(),
            prompt: prompt + tool_tokens(&options.tools),
            messages,
            ..planned_call(&self.session.id, &self.agent, &self.session.provider, &options)
        };
        match self.engine.providers.reserve(&call, &mut self.reservation).await {
            Ok(()) => Ok(self.within_budget(options)),
            Err(error) => Err(ModelError::new(ModelErrorCode::RateLimit, error.to_string())),
        }
    }

    /// What was granted may be less than what is wanted.
    fn within_budget(&self, mut options: CallOptions) -> CallOptions {
        let granted = self.reservation.as_ref().and_then(|reservation| reservation.max_output_tokens);
        options.max_output_tokens = granted.into_iter().chain(options.max_output_tokens).min();
        options
    }
}
