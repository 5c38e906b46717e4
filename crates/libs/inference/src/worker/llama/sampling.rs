//! Selection of the next token.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use crate::worker::llama::log;
use crate::worker::tool_calls::CallGrammar;
use crate::{GenerateRequest, LocalError, LocalErrorCode};

/// Prevents repetitions of small models. Applies to a recent window of the reply only, so that words of the question
/// remain usable.
const REPETITION_PENALTY: f32 = 1.1;
const REPETITION_WINDOW: i32 = 64;
const TOP_K: i32 = 40;
const TOP_P: f32 = 0.95;
const MIN_P: f32 = 0.05;

pub(super) struct Sampling {
    settings: Settings,
    chain: LlamaSampler,
    /// Set while a tool call is generated.
    grammar: Option<LlamaSampler>,
}

#[derive(Clone, Copy)]
struct Settings {
    vocabulary_size: i32,
    temperature: f32,
    seed: u32,
}

impl Settings {
    fn chain(self, avoids_repetition: bool) -> LlamaSampler {
        let mut chain = Vec::new();
        if avoids_repetition {
            chain.push(LlamaSampler::penalties(self.vocabulary_size, REPETITION_WINDOW, REPETITION_PENALTY, 0.0, 0.0));
        }
        if self.temperature > 0.0 && self.temperature.is_finite() {
            chain.extend([
                LlamaSampler::top_k(TOP_K),
                LlamaSampler::top_p(TOP_P, 1),
                LlamaSampler::min_p(MIN_P, 1),
                LlamaSampler::temp(self.temperature),
                LlamaSampler::dist(self.seed),
            ]);
        } else {
            chain.push(LlamaSampler::greedy());
        }
        LlamaSampler::chain(chain, true)
    }
}

impl Sampling {
    pub(super) fn new(model: &LlamaModel, request: &GenerateRequest) -> Self {
        let settings = Settings {
            vocabulary_size: model.n_vocab(),
            temperature: request.temperature,
            seed: request.seed.unwrap_or_default(),
        };
        Self { settings, chain: settings.chain(true), grammar: None }
    }

    /// Switches to the generation of a tool call that begins with `written`. If `written` does not fit the grammar, or
    /// no grammar can be created, the model is unconstrained: the arguments are validated by the caller that runs the
    /// tool.
    pub(super) fn begin_call(&mut self, model: &LlamaModel, call: &CallGrammar, written: &str) {
        if self.grammar.is_some() {
            return;
        }
        match grammar(model, &call.schema, call.end) {
            Ok(mut grammar) => {
                let tokens = model.vocab().tokenize(written.as_bytes(), false, false);
                if tokens.into_iter().all(|token| grammar.try_accept(token).is_ok()) {
                    self.grammar = Some(grammar);
                    // Quotes and braces of JSON must be allowed to repeat.
                    self.chain = self.settings.chain(false);
                }
            }
            Err(error) => log::warn(&format!("generating a tool call without a grammar: {error}")),
        }
    }

    pub(super) fn end_call(&mut self) {
        if self.grammar.take().is_some() {
            self.chain = self.settings.chain(true);
        }
    }

    /// Samples from the logits at `index` of the last batch, and records the choice.
    pub(super) fn sample(&mut self, context: &LlamaContext<'_>, index: i32) -> Result<LlamaToken, LocalError> {
        let Some(grammar) = &mut self.grammar else {
            return Ok(self.chain.sample(context, index));
        };
        match constrained(grammar, &mut self.chain, context, index) {
            Err(_) => {
                self.end_call();
                Ok(self.chain.sample(context, index))
            }
            chosen => chosen,
        }
    }
}

fn constrained(
    grammar: &mut LlamaSampler,
    chain: &mut LlamaSampler,
    context: &LlamaContext<'_>,
    index: i32,
) -> Result<LlamaToken, LocalError> {
    // The grammar is slow for a whole vocabulary and fast for one token, and the model usually chooses an allowed
    // token: test that first, and constrain only if it is not allowed.
    let mut candidates = context.token_data_array_ith(index);
    candidates.apply_sampler(chain);
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
        candidates.apply_sampler(chain);
        candidates.selected_token().ok_or_else(nothing_allowed)?
    };
    grammar
        .try_accept(token)
        .map_err(|error| LocalError::new(LocalErrorCode::Internal, format!("the grammar failed: {error}")))?;
    chain.accept(token);
    Ok(token)
}

fn nothing_allowed() -> LocalError {
    LocalError::new(LocalErrorCode::Internal, "the schema permits none of the model's tokens here")
}

/// Creates a grammar of JSON that satisfies `schema`, followed by `end`, with blanks before either.
fn grammar(model: &LlamaModel, schema: &str, end: &str) -> Result<LlamaSampler, LocalError> {
    let invalid = |error: String| {
        LocalError::new(LocalErrorCode::Invalid, format!("the JSON schema cannot be converted to a grammar: {error}"))
    };
    let rules = llama_cpp_2::json_schema_to_grammar(schema).map_err(|error| invalid(error.to_string()))?;
    let renamed = rules.lines().map(|line| match line.strip_prefix("root ::=") {
        Some(rest) => format!("tool-call-body ::={rest}\n"),
        None => format!("{line}\n"),
    });
    let mut rules: String = renamed.collect();
    let end = if end.is_empty() { String::new() } else { format!(" [ \\t\\n]* \"{end}\"") };
    rules.push_str(&format!("root ::= [ \\t\\n]* tool-call-body{end}\n"));
    LlamaSampler::grammar(model, &rules, "root").map_err(|error| invalid(error.to_string()))
}
