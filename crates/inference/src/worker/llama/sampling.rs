//! How the next token is chosen.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use crate::{GenerateRequest, LocalError, LocalErrorCode};

/// Small models repeat themselves without it; over a recent window, and of the reply alone, so that
/// words of the question stay usable.
const REPETITION_PENALTY: f32 = 1.1;
const REPETITION_WINDOW: i32 = 64;
const TOP_K: i32 = 40;
const TOP_P: f32 = 0.95;
const MIN_P: f32 = 0.05;

pub(super) struct Sampling {
    chain: LlamaSampler,
    grammar: Option<LlamaSampler>,
}

impl Sampling {
    pub(super) fn new(model: &LlamaModel, request: &GenerateRequest) -> Result<Self, LocalError> {
        let grammar = request.grammar_schema.as_ref().map(|schema| grammar(model, schema)).transpose()?;
        let mut chain = Vec::new();
        // The quotes and braces of JSON must repeat.
        if grammar.is_none() {
            chain.push(LlamaSampler::penalties(model.n_vocab(), REPETITION_WINDOW, REPETITION_PENALTY, 0.0, 0.0));
        }
        if request.temperature > 0.0 && request.temperature.is_finite() {
            chain.extend([
                LlamaSampler::top_k(TOP_K),
                LlamaSampler::top_p(TOP_P, 1),
                LlamaSampler::min_p(MIN_P, 1),
                LlamaSampler::temp(request.temperature),
                LlamaSampler::dist(request.seed.unwrap_or_default()),
            ]);
        } else {
            chain.push(LlamaSampler::greedy());
        }
        Ok(Self { chain: LlamaSampler::chain(chain, true), grammar })
    }

    /// Chooses by the logits at `index` of the last batch and takes note of the choice.
    pub(super) fn sample(&mut self, context: &LlamaContext<'_>, index: i32) -> Result<LlamaToken, LocalError> {
        let Some(grammar) = &mut self.grammar else {
            return Ok(self.chain.sample(context, index));
        };
        // The grammar is slow over a whole vocabulary and fast over one token, and the model mostly
        // chooses what the grammar allows: ask it first, and constrain only when it is wrong.
        let mut candidates = context.token_data_array_ith(index);
        candidates.apply_sampler(&mut self.chain);
        let free = candidates.selected_token().ok_or_else(nothing_allowed)?;
        let mut single = LlamaTokenDataArray::new(vec![LlamaTokenData::new(free, 1.0, 0.0)], false);
        single.apply_sampler(grammar);
        let token = if single.data[0].logit().is_finite() {
            free
        } else {
            let mut candidates = context.token_data_array_ith(index);
            candidates.apply_sampler(grammar);
            candidates.data.retain(|candidate| candidate.logit().is_finite());
            if candidates.data.is_empty() {
                return Err(nothing_allowed());
            }
            candidates.apply_sampler(&mut self.chain);
            candidates.selected_token().ok_or_else(nothing_allowed)?
        };
        grammar
            .try_accept(token)
            .map_err(|error| LocalError::new(LocalErrorCode::Internal, format!("the grammar failed: {error}")))?;
        self.chain.accept(token);
        Ok(token)
    }
}

fn nothing_allowed() -> LocalError {
    LocalError::new(LocalErrorCode::Internal, "the schema allows none of the model's tokens here")
}

fn grammar(model: &LlamaModel, schema: &serde_json::Value) -> Result<LlamaSampler, LocalError> {
    let invalid = |error: String| {
        LocalError::new(LocalErrorCode::Invalid, format!("the JSON schema cannot be made into a grammar: {error}"))
    };
    let rules = llama_cpp_2::json_schema_to_grammar(&schema.to_string()).map_err(|error| invalid(error.to_string()))?;
    LlamaSampler::grammar(model, &rules, "root").map_err(|error| invalid(error.to_string()))
}
