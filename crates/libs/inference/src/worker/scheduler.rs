//! Writes several replies in turns: one piece of work for each, round and round.
//!
//! The piece of work is one token, or one chunk of a prompt, so a request waits for at most one such
//! piece of every other, and a cancelled one ends before its next. Requests beyond `max_parallel`
//! wait in order of arrival.
//!
//! Each running request has a sequence: a context window of its own, kept afterwards so that the
//! next turn of the same conversation need not read its beginning again.
//!
//! Deliberately absent: anything about the engine. [`Model`] and [`Sequence`] are its seam, so that
//! turns, limits and stop texts are tested without weights.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::protocol::{FromWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Inbox, Waiting};
use crate::worker::text::TextAssembler;
use crate::worker::tool_calls::{CallGrammar, Change, ToolCallReader, ToolFormat};
use crate::{FinishReason, FunctionCall, GenerateRequest, LocalError, LocalErrorCode};

/// Most prompt tokens read in one turn: what the engine takes at once.
const MAX_PROMPT_CHUNK: usize = 256;
const MIN_PROMPT_CHUNK: usize = 8;
const FIRST_PROMPT_CHUNK: usize = 32;
/// How long a chunk should take: a cancellation is seen, a sign of life given, and others get their turn between two
/// of them.
const CHUNK: Duration = Duration::from_millis(80);
/// Idle sequences beyond this many give their memory back.
const MAX_IDLE_SEQUENCES: usize = 2;
/// Longest silence while there is work.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A loaded model.
pub trait Model {
    type Sequence<'a>: Sequence
    where
        Self: 'a;

    fn context_length(&self) -> u32;

    /// Texts that end a reply besides those of the request.
    fn stop_texts(&self) -> &[String];

    /// How it calls tools, if it does.
    fn tool_format(&self) -> Option<ToolFormat> {
        None
    }

    /// What every reply begins with although the model does not write it.
    fn reply_prefix(&self) -> &str {
        ""
    }

    /// The prompt as tokens.
    fn tokenize(&self, request: &GenerateRequest) -> Result<Vec<i32>, LocalError>;

    /// A new, empty sequence.
    fn open(&self) -> Result<Self::Sequence<'_>, LocalError>;
}

/// One context window.
pub trait Sequence {
    /// The tokens whose state is in memory, in order.
    fn cached(&self) -> &[i32];

    /// Starts on a prompt, reusing what it shares with [`Self::cached`]; returns how many tokens that were.
    fn begin(&mut self, prompt: Vec<i32>, request: &GenerateRequest) -> Result<usize, LocalError>;

    /// Reads at most so many more tokens of the prompt; true when it is read.
    fn read_prompt(&mut self, at_most: usize) -> Result<bool, LocalError>;

    /// Chooses the next token.
    fn sample(&mut self) -> Result<Piece, LocalError>;

    /// Takes the chosen token into the state, so that another can be chosen.
    fn advance(&mut self) -> Result<(), LocalError>;

    /// A tool call began, of which `written` stands already: what follows should keep to `grammar`.
    fn begin_call(&mut self, grammar: &CallGrammar, written: &str) -> Result<(), LocalError> {
        let _ = (grammar, written);
        Ok(())
    }

    /// The call is over.
    fn end_call(&mut self) {}
}

/// What was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The bytes of one token: maybe part of a character, maybe none.
    Token(Vec<u8>),
    /// The model is done.
    End,
}

enum Phase {
    Prompt,
    /// The prompt is read and nothing sampled since the last [`Sequence::advance`].
    Ready,
    /// A token was sampled and not yet taken in.
    Sampled,
}

struct Job<S> {
    id: u64,
    sequence: S,
    phase: Phase,
    text: TextAssembler,
    /// Behind `text`, where tools are offered: what it takes for a call is not shown.
    calls: Option<Calls>,
    max_output_tokens: u32,
    usage: WorkerUsage,
}

struct Calls {
    reader: ToolCallReader,
    grammar: CallGrammar,
}

/// How a job ended.
struct Ended {
    reason: FinishReason,
    calls: Vec<FunctionCall>,
}

impl From<FinishReason> for Ended {
    fn from(reason: FinishReason) -> Self {
        Self { reason, calls: Vec::new() }
    }
}

/// How fast prompts are read, from the last chunk. Machines and models differ a thousandfold.
#[derive(Default)]
pub(crate) struct Pace {
    tokens_per_second: Option<f64>,
}

impl Pace {
    pub(crate) fn chunk(&self) -> usize {
        let fitting = self.tokens_per_second.map_or(FIRST_PROMPT_CHUNK, |speed| floor(speed * CHUNK.as_secs_f64()));
        fitting.clamp(MIN_PROMPT_CHUNK, MAX_PROMPT_CHUNK)
    }

    pub(crate) fn observe(&mut self, tokens: usize, elapsed: Duration) {
        // A short rest of a prompt says little.
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

/// Serves requests for the model at `model_path` until one for another model is next and all others are done.
pub(crate) fn serve<M: Model>(
    model: &M,
    model_path: &Path,
    inbox: &Inbox,
    configuration: &WorkerConfiguration,
    send: &dyn Fn(&FromWorker),
) {
    let mut idle: Vec<M::Sequence<'_>> = Vec::new();
    let mut active: VecDeque<Job<M::Sequence<'_>>> = VecDeque::new();
    let mut last_sign = Instant::now();
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
                    last_sign = Instant::now();
                }
                // The sequence goes with its job: after an error its state cannot be trusted.
                Err(error) => fail(inbox, job.id, &error, send),
            }
            if last_sign.elapsed() >= SIGN_OF_LIFE {
                send(&FromWorker::Working);
                last_sign = Instant::now();
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
    waiting: &Waiting,
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
                "the prompt has {input_tokens} tokens and the model's context window holds {context_length}, reply \
                 included"
            ),
        ));
    }
    let room = context_length - input_tokens;
    let mut sequence = match choose(idle, &prompt, full) {
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
        text: TextAssembler::new(stop).beginning_with(model.reply_prefix()),
        calls,
        max_output_tokens: request.max_output_tokens.unwrap_or(room).min(room),
        usage: WorkerUsage {
            input_tokens,
            cached_tokens: u32::try_from(cached).unwrap_or(u32::MAX),
            output_tokens: 0,
            prompt_seconds: started.elapsed().as_secs_f64(),
            generation_seconds: 0.0,
        },
    })
}

/// The idle sequence to go on with: the one that shares most with the prompt. While there is room
/// for another one, a sequence that shares little is left for the conversation it belongs to.
fn choose<S: Sequence>(idle: &[S], prompt: &[i32], full: bool) -> Option<usize> {
    let shared = |sequence: &S| sequence.cached().iter().zip(prompt).take_while(|(a, b)| a == b).count();
    // The first of equals, which was idle longest.
    let (at, best) = idle.iter().map(shared).enumerate().rev().max_by_key(|&(_, shared)| shared)?;
    let belongs = best * 2 >= idle[at].cached().len().min(prompt.len());
    (belongs || full || idle.len() >= MAX_IDLE_SEQUENCES).then_some(at)
}

impl<S: Sequence> Job<S> {
    /// One piece of work; the reason when it was the last.
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
