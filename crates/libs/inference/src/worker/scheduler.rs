//! Round-robin scheduler for concurrent replies: one unit of work for each in turn.
//!
//! A unit is one token, or one chunk of a prompt, so a request waits for at most one unit of every other, and a
//! cancelled one ends before its next unit. Requests beyond `max_parallel` wait in order of arrival.
//!
//! Each running request has a sequence: a separate context window, which is retained afterwards so that the next turn
//! of the same conversation does not have to read its beginning again.
//!
//! Independent of the engine: [`Model`] and [`Sequence`] are the interface, so that turns, limits and stop texts are
//! tested without weights.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::protocol::{FromWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Inbox, QueuedRequest};
use crate::worker::text::TextAssembler;
use crate::worker::tool_calls::{CallGrammar, Change, ToolCallReader, ToolFormat};
use crate::{FinishReason, FunctionCall, GenerateRequest, LocalError, LocalErrorCode};

/// Maximum number of prompt tokens per turn: the batch size of the engine.
const MAX_PROMPT_CHUNK: usize = 256;
const MIN_PROMPT_CHUNK: usize = 8;
const FIRST_PROMPT_CHUNK: usize = 32;
/// Target duration of a chunk: between chunks, cancellations are noticed, keep-alives are sent and other requests get
/// their turn.
const TARGET_CHUNK_DURATION: Duration = Duration::from_millis(80);
/// Maximum number of retained idle sequences; more would waste memory.
const MAX_IDLE_SEQUENCES: usize = 2;
/// Maximum time between frames while there is work.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Loaded model.
pub trait Model {
    type Sequence<'a>: Sequence
    where
        Self: 'a;

    fn context_length(&self) -> u32;

    /// Returns texts that end a reply in addition to those of the request.
    fn stop_texts(&self) -> &[String];

    /// Returns the tool call format, if the model supports tools.
    fn tool_format(&self) -> Option<ToolFormat> {
        None
    }

    /// Returns the beginning of every reply that the model itself does not generate.
    fn reply_prefix(&self) -> &str {
        ""
    }

    /// Tokenizes the prompt.
    fn tokenize(&self, request: &GenerateRequest) -> Result<Vec<i32>, LocalError>;

    /// Opens a new, empty sequence.
    fn open(&self) -> Result<Self::Sequence<'_>, LocalError>;
}

/// Context window.
pub trait Sequence {
    /// Returns the tokens whose state is in memory, in order.
    fn cached(&self) -> &[i32];

    /// Starts a prompt, reusing its common prefix with [`Self::cached`]; returns the length of that prefix in tokens.
    fn begin(&mut self, prompt: Vec<i32>, request: &GenerateRequest) -> Result<usize, LocalError>;

    /// Reads up to `at_most` more prompt tokens; returns true once the prompt is complete.
    fn read_prompt(&mut self, at_most: usize) -> Result<bool, LocalError>;

    /// Samples the next token.
    fn sample(&mut self) -> Result<Piece, LocalError>;

    /// Adds the sampled token to the state, so that another can be sampled.
    fn advance(&mut self) -> Result<(), LocalError>;

    /// Notifies about the start of a tool call with the text `written`; the rest should match `grammar`.
    fn begin_call(&mut self, grammar: &CallGrammar, written: &str) -> Result<(), LocalError> {
        let _ = (grammar, written);
        Ok(())
    }

    /// Notifies about the end of the call.
    fn end_call(&mut self) {}
}

/// Sampled output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of one token; may be part of a character, or empty.
    Token(Vec<u8>),
    /// End of the reply.
    End,
}

enum Phase {
    Prompt,
    /// The prompt is read, and nothing was sampled since the last [`Sequence::advance`].
    Ready,
    /// A token was sampled and not yet added to the state.
    Sampled,
}

struct Job<S> {
    id: u64,
    sequence: S,
    phase: Phase,
    text: TextAssembler,
    /// Applied after `text` if tools are offered: the text of calls is not shown.
    calls: Option<Calls>,
    max_output_tokens: u32,
    usage: WorkerUsage,
}

struct Calls {
    reader: ToolCallReader,
    grammar: CallGrammar,
}

/// Outcome of a job.
struct Ended {
    reason: FinishReason,
    calls: Vec<FunctionCall>,
}

impl From<FinishReason> for Ended {
    fn from(reason: FinishReason) -> Self {
        Self { reason, calls: Vec::new() }
    }
}

/// Prompt reading speed of the last chunk. Machines and models differ by a factor of a thousand.
#[derive(Default)]
pub(crate) struct Pace {
    tokens_per_second: Option<f64>,
}

impl Pace {
    pub(crate) fn chunk(&self) -> usize {
        let fitting = self
            .tokens_per_second
            .map_or(FIRST_PROMPT_CHUNK, |speed| floor(speed * TARGET_CHUNK_DURATION.as_secs_f64()));
        fitting.clamp(MIN_PROMPT_CHUNK, MAX_PROMPT_CHUNK)
    }

    pub(crate) fn observe(&mut self, tokens: usize, elapsed: Duration) {
        // A short final chunk is not representative.
        if tokens >= MIN_PROMPT_CHUNK && !elapsed.is_zero() {
            let tokens = f64::from(u32::try_from(tokens).unwrap_or(u32::MAX));
            self.tokens_per_second = Some(tokens / elapsed.as_secs_f64());
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and speeds are positive"
)]
fn floor(value: f64) -> usize {
    value as usize
}

/// Serves requests for the model at `model_path` until the next one is for another model and all others are done.
pub(crate) fn serve<M: Model>(
    model: &M,
    model_path: &Path,
    inbox: &Inbox,
    configuration: &WorkerConfiguration,
    send: &dyn Fn(&FromWorker),
) {
    let mut idle: Vec<M::Sequence<'_>> = Vec::new();
    let mut active: VecDeque<Job<M::Sequence<'_>>> = VecDeque::new();
    let mut last_frame_at = Instant::now();
    let mut pace = Pace::default();
    loop {
        while active.len() < configuration.max_parallel.max(1) {
            let Some(waiting) = inbox.take(model_path) else { break };
            let full = active.len() + idle.len() >= configuration.max_parallel.max(MAX_IDLE_SEQUENCES);
            match admit(model, &waiting, &mut idle, full) {
                Ok(job) => active.push_back(job),
                Err(error) => fail(inbox, waiting.id, &error, send),
            }
        }
        if active.is_empty() {
            if inbox.wait() == model_path {
                continue;
            }
            return;
        }
        for _ in 0..active.len() {
            let Some(mut job) = active.pop_front() else { break };
            let turn = if inbox.is_cancelled(job.id) {
                Ok(Some(FinishReason::Cancelled.into()))
            } else {
                job.turn(&mut pace, send)
            };
            match turn {
                Ok(None) => active.push_back(job),
                Ok(Some(Ended { reason, calls })) => {
                    inbox.done(job.id);
                    send(&FromWorker::Finished { id: job.id, reason, usage: job.usage, calls });
                    idle.push(job.sequence);
                    idle.drain(..idle.len().saturating_sub(MAX_IDLE_SEQUENCES));
                    last_frame_at = Instant::now();
                }
                // The sequence is dropped with its job: after an error, its state cannot be trusted.
                Err(error) => fail(inbox, job.id, &error, send),
            }
            if last_frame_at.elapsed() >= KEEP_ALIVE_INTERVAL {
                send(&FromWorker::Working);
                last_frame_at = Instant::now();
            }
        }
    }
}

fn fail(inbox: &Inbox, id: u64, error: &LocalError, send: &dyn Fn(&FromWorker)) {
    inbox.done(id);
    send(&FromWorker::Failed { id, code: error.code, message: error.message.clone() });
}

fn admit<'m, M: Model>(
    model: &'m M,
    waiting: &QueuedRequest,
    idle: &mut Vec<M::Sequence<'m>>,
    full: bool,
) -> Result<Job<M::Sequence<'m>>, LocalError> {
    let request = &waiting.request;
    let prompt = model.tokenize(request)?;
    let context_length = model.context_length();
    let input_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    if input_tokens == 0 {
        return Err(LocalError::new(LocalErrorCode::Invalid, "the prompt is empty"));
    }
    if input_tokens >= context_length {
        return Err(LocalError::new(
            LocalErrorCode::ContextLength,
            format!(
                "the prompt has {input_tokens} tokens and does not fit into the context window of {context_length} \
                 tokens, which includes the reply"
            ),
        ));
    }
    let remaining = context_length - input_tokens;
    let mut sequence = match choose_idle_sequence(idle, &prompt, full) {
        Some(at) => idle.remove(at),
        None => model.open()?,
    };
    let started = Instant::now();
    let cached = sequence.begin(prompt, request)?;
    let stop = model.stop_texts().iter().chain(&request.stop).cloned().collect();
    let format = model.tool_format().filter(|_| !request.tools.is_empty());
    let calls = format
        .map(|format| Calls { reader: ToolCallReader::new(format), grammar: CallGrammar::new(format, &request.tools) });
    Ok(Job {
        id: waiting.id,
        sequence,
        phase: Phase::Prompt,
        text: TextAssembler::new(stop).with_prefix(model.reply_prefix()),
        calls,
        max_output_tokens: request.max_output_tokens.unwrap_or(remaining).min(remaining),
        usage: WorkerUsage {
            input_tokens,
            cached_tokens: u32::try_from(cached).unwrap_or(u32::MAX),
            output_tokens: 0,
            prompt_seconds: started.elapsed().as_secs_f64(),
            generation_seconds: 0.0,
        },
    })
}

/// Selects the idle sequence to reuse: the one with the longest common prefix with the prompt. If another sequence may
/// be opened, one with a short common prefix is left for its own conversation.
fn choose_idle_sequence<S: Sequence>(idle: &[S], prompt: &[i32], full: bool) -> Option<usize> {
    let shared = |sequence: &S| sequence.cached().iter().zip(prompt).take_while(|(a, b)| a == b).count();
    // On a tie, the first one, which was idle longest.
    let (at, best) = idle.iter().map(shared).enumerate().rev().max_by_key(|&(_, shared)| shared)?;
    let is_same_conversation = best * 2 >= idle[at].cached().len().min(prompt.len());
    (is_same_conversation || full || idle.len() >= MAX_IDLE_SEQUENCES).then_some(at)
}

impl<S: Sequence> Job<S> {
    /// Performs one unit of work; returns how the job ended, if it did.
    fn turn(&mut self, pace: &mut Pace, send: &dyn Fn(&FromWorker)) -> Result<Option<Ended>, LocalError> {
        let started = Instant::now();
        match self.phase {
            Phase::Prompt => {
                let before = self.sequence.cached().len();
                if self.sequence.read_prompt(pace.chunk())? {
                    self.phase = Phase::Ready;
                }
                pace.observe(self.sequence.cached().len() - before, started.elapsed());
                self.usage.prompt_seconds += started.elapsed().as_secs_f64();
                Ok(None)
            }
            Phase::Ready | Phase::Sampled => {
                if self.usage.output_tokens >= self.max_output_tokens {
                    return self.end(FinishReason::Length, send).map(Some);
                }
                if matches!(self.phase, Phase::Sampled) {
                    self.sequence.advance()?;
                }
                let piece = self.sequence.sample()?;
                self.usage.generation_seconds += started.elapsed().as_secs_f64();
                let Piece::Token(bytes) = piece else {
                    return self.end(FinishReason::Stop, send).map(Some);
                };
                self.phase = Phase::Sampled;
                self.usage.output_tokens += 1;
                let assembled = self.text.push(&bytes);
                self.emit(assembled.text, send)?;
                if assembled.stopped { self.end(FinishReason::Stop, send).map(Some) } else { Ok(None) }
            }
        }
    }

    fn end(&mut self, reason: FinishReason, send: &dyn Fn(&FromWorker)) -> Result<Ended, LocalError> {
        let rest = self.text.finish();
        self.emit(rest, send)?;
        let Some(Calls { reader, .. }) = self.calls.take() else { return Ok(reason.into()) };
        let (text, calls) = reader.finish(reason == FinishReason::Length);
        self.emit(text, send)?;
        Ok(Ended { reason, calls })
    }

    fn emit(&mut self, text: String, send: &dyn Fn(&FromWorker)) -> Result<(), LocalError> {
        let text = match &mut self.calls {
            Some(Calls { reader, grammar }) => {
                let read = reader.push(&text);
                match read.change {
                    Some(Change::Begun(written)) => self.sequence.begin_call(grammar, &written)?,
                    Some(Change::Ended) => self.sequence.end_call(),
                    None => {}
                }
                read.text
            }
            None => text,
        };
        if !text.is_empty() {
            send(&FromWorker::Text { id: self.id, text });
        }
        Ok(())
    }
}
