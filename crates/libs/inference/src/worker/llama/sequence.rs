//! Context window of the engine.
//!
//! Invariant: `tokens` equals the content of the engine's cache. It grows only after the engine accepted a batch, and a
//! failed batch ends the sequence.

use std::collections::HashSet;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::worker::llama::sampling::Sampling;
use crate::worker::scheduler::{Piece, Sequence};
use crate::worker::tool_calls::CallGrammar;
use crate::{GenerateRequest, LocalError, LocalErrorCode};

pub(crate) struct LlamaSequence<'m> {
    model: &'m LlamaModel,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    batch_tokens: usize,
    tokens: Vec<i32>,
    prompt: Vec<i32>,
    sampling: Option<Sampling>,
    sampled: Option<LlamaToken>,
    delimiters: &'m HashSet<i32>,
    /// Whether calls are parsed from this reply.
    reads_calls: bool,
}

impl<'m> LlamaSequence<'m> {
    pub(super) fn new(
        model: &'m LlamaModel,
        context: LlamaContext<'m>,
        batch_tokens: u32,
        delimiters: &'m HashSet<i32>,
    ) -> Self {
        let batch_tokens = usize::try_from(batch_tokens).unwrap_or(usize::MAX);
        Self {
            model,
            context,
            batch: LlamaBatch::new(batch_tokens, 1),
            batch_tokens,
            tokens: Vec::new(),
            prompt: Vec::new(),
            sampling: None,
            sampled: None,
            delimiters,
            reads_calls: false,
        }
    }

    /// Submits tokens to the engine; afterwards, the logits of the last one are available.
    fn decode(&mut self, tokens: &[i32]) -> Result<(), LocalError> {
        let internal = |error: String| LocalError::new(LocalErrorCode::Internal, format!("the engine failed: {error}"));
        self.batch.clear();
        for (offset, &token) in tokens.iter().enumerate() {
            let position = i32::try_from(self.tokens.len() + offset).map_err(|error| internal(error.to_string()))?;
            self.batch
                .add(LlamaToken(token), position, &[0], offset + 1 == tokens.len())
                .map_err(|error| internal(error.to_string()))?;
        }
        self.context.decode(&mut self.batch).map_err(|error| internal(error.to_string()))?;
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }
}

impl Sequence for LlamaSequence<'_> {
    fn cached(&self) -> &[i32] {
        &self.tokens
    }

    fn begin(&mut self, prompt: Vec<i32>, request: &GenerateRequest) -> Result<usize, LocalError> {
        self.sampling = Some(Sampling::new(self.model, request));
        self.sampled = None;
        self.reads_calls = !request.tools.is_empty();
        let shared = self.tokens.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        // At least one token must be read to obtain logits.
        let mut keep = shared.min(prompt.len().saturating_sub(1));
        if keep < self.tokens.len() {
            let from = u32::try_from(keep).unwrap_or(u32::MAX);
            // Models with a recurrent state cannot drop a part of it.
            if keep == 0 || !matches!(self.context.clear_kv_cache_seq(Some(0), Some(from), None), Ok(true)) {
                self.context.clear_kv_cache();
                keep = 0;
            }
            self.tokens.truncate(keep);
        }
        self.prompt = prompt;
        Ok(keep)
    }

    fn read_prompt(&mut self, at_most: usize) -> Result<bool, LocalError> {
        let prompt = std::mem::take(&mut self.prompt);
        let from = self.tokens.len();
        let to = prompt.len().min(from + at_most.clamp(1, self.batch_tokens));
        let read = self.decode(&prompt[from..to]);
        self.prompt = prompt;
        read.map(|()| to == self.prompt.len())
    }

    fn sample(&mut self) -> Result<Piece, LocalError> {
        let Some(sampling) = &mut self.sampling else {
            return Err(LocalError::new(LocalErrorCode::Internal, "the sequence was not started"));
        };
        let token = sampling.sample(&self.context, self.batch.n_tokens() - 1)?;
        let vocabulary = self.model.vocab();
        if vocabulary.is_eog(token) {
            return Ok(Piece::End);
        }
        self.sampled = Some(token);
        let is_shown = self.reads_calls && self.delimiters.contains(&token.0);
        Ok(Piece::Token(vocabulary.token_to_piece(token, is_shown, None)))
    }

    fn advance(&mut self) -> Result<(), LocalError> {
        match self.sampled.take() {
            Some(token) => self.decode(&[token.0]),
            None => Err(LocalError::new(LocalErrorCode::Internal, "there is no token to continue from")),
        }
    }

    fn begin_call(&mut self, grammar: &CallGrammar, written: &str) -> Result<(), LocalError> {
        if let Some(sampling) = &mut self.sampling {
            sampling.begin_call(self.model, grammar, written);
        }
        Ok(())
    }

    fn end_call(&mut self) {
        if let Some(sampling) = &mut self.sampling {
            sampling.end_call();
        }
    }
}
