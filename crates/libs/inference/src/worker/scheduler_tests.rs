//! Tests of the scheduler with an engine without weights: each byte of the last message is one token of the reply, `$`
//! ends it, `!` makes the engine fail.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use crate::protocol::{FromWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Cancelled, Inbox, QueuedRequest};
use crate::worker::scheduler::{Model, Pace, Piece, Sequence, serve};
use crate::{ChatMessage, FinishReason, GenerateRequest, LocalError, LocalErrorCode};

const MODEL: &str = "/models/scripted.gguf";
/// A request for this model makes `serve` return once everything else is done.
const OTHER_MODEL: &str = "/models/other.gguf";

#[derive(Default)]
struct Scripted {
    /// Engine operations, in order.
    log: RefCell<Vec<String>>,
}

struct ScriptedSequence<'m> {
    model: &'m Scripted,
    cached: Vec<i32>,
    prompt: Vec<i32>,
    script: Vec<u8>,
    at: usize,
}

impl Model for Scripted {
    type Sequence<'a> = ScriptedSequence<'a>;

    fn context_length(&self) -> u32 {
        600
    }

    fn stop_texts(&self) -> &[String] {
        &[]
    }

    fn tokenize(&self, request: &GenerateRequest) -> Result<Vec<i32>, LocalError> {
        Ok(request.messages.iter().flat_map(|message| message.content.bytes()).map(i32::from).collect())
    }

    fn open(&self) -> Result<ScriptedSequence<'_>, LocalError> {
        self.log.borrow_mut().push("open".to_owned());
        Ok(ScriptedSequence { model: self, cached: vec![], prompt: vec![], script: vec![], at: 0 })
    }
}

impl Sequence for ScriptedSequence<'_> {
    fn cached(&self) -> &[i32] {
        &self.cached
    }

    fn begin(&mut self, prompt: Vec<i32>, request: &GenerateRequest) -> Result<usize, LocalError> {
        let shared = self.cached.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let keep = shared.min(prompt.len() - 1);
        self.cached.truncate(keep);
        self.prompt = prompt;
        self.script = request.messages.last().unwrap().content.clone().into_bytes();
        self.at = 0;
        Ok(keep)
    }

    fn read_prompt(&mut self, at_most: usize) -> Result<bool, LocalError> {
        let to = self.prompt.len().min(self.cached.len() + at_most);
        self.model.log.borrow_mut().push(format!("read {}", to - self.cached.len()));
        self.cached.extend_from_slice(&self.prompt[self.cached.len()..to]);
        Ok(to == self.prompt.len())
    }

    fn sample(&mut self) -> Result<Piece, LocalError> {
        let byte = self.script[self.at % self.script.len()];
        self.at += 1;
        match byte {
            b'$' => Ok(Piece::End),
            b'!' => Err(LocalError::new(LocalErrorCode::Internal, "scripted failure")),
            byte => Ok(Piece::Token(vec![byte])),
        }
    }

    fn advance(&mut self) -> Result<(), LocalError> {
        self.cached.push(i32::from(self.script[(self.at - 1) % self.script.len()]));
        Ok(())
    }
}

fn request(text: &str) -> GenerateRequest {
    GenerateRequest::new(MODEL, "", vec![ChatMessage::user(text)])
}

fn configuration(max_parallel: usize) -> WorkerConfiguration {
    WorkerConfiguration { context_length: 600, max_parallel }
}

struct Run {
    frames: Vec<FromWorker>,
    log: Vec<String>,
}

impl Run {
    fn text(&self, wanted: u64) -> String {
        self.frames
            .iter()
            .filter_map(|frame| match frame {
                FromWorker::Text { id, text } if *id == wanted => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    fn end(&self, wanted: u64) -> Option<(FinishReason, WorkerUsage)> {
        self.frames.iter().find_map(|frame| match frame {
            FromWorker::Finished { id, reason, usage, .. } if *id == wanted => Some((*reason, *usage)),
            _ => None,
        })
    }

    fn failure(&self, wanted: u64) -> Option<(LocalErrorCode, &str)> {
        self.frames.iter().find_map(|frame| match frame {
            FromWorker::Failed { id, code, message } if *id == wanted => Some((*code, message.as_str())),
            _ => None,
        })
    }
}

/// Serves `requests` (ids from 1) and calls `on_frame` for each frame as it is sent.
fn run_with(requests: Vec<GenerateRequest>, max_parallel: usize, on_frame: impl Fn(&Inbox, &FromWorker)) -> Run {
    let inbox = Inbox::new(100);
    for (id, request) in (1..).zip(requests) {
        assert!(inbox.push(QueuedRequest { id, request: Box::new(request) }).is_ok());
    }
    let mut last = request("$");
    last.model_path = OTHER_MODEL.into();
    assert!(inbox.push(QueuedRequest { id: 0, request: Box::new(last) }).is_ok());
    let model = Scripted::default();
    let frames = RefCell::new(Vec::new());
    serve(&model, Path::new(MODEL), &inbox, &configuration(max_parallel), &|frame| {
        on_frame(&inbox, frame);
        frames.borrow_mut().push(frame.clone());
    });
    Run { frames: frames.into_inner(), log: model.log.into_inner() }
}

fn run(requests: Vec<GenerateRequest>, max_parallel: usize) -> Run {
    run_with(requests, max_parallel, |_, _| {})
}

#[test]
fn reply_is_streamed_with_exact_usage() {
    let run = run(vec![request("hello$")], 4);
    let pieces = run.frames.iter().filter(|frame| matches!(frame, FromWorker::Text { .. })).count();
    assert_eq!((run.text(1).as_str(), pieces), ("hello", 5));
    let (reason, usage) = run.end(1).unwrap();
    assert_eq!((reason, usage.input_tokens, usage.output_tokens), (FinishReason::Stop, 6, 5));
}

#[test]
fn running_replies_alternate_by_token() {
    let run = run(vec![request("aaaa$"), request("bbbb$"), request("cccc$")], 4);
    let order: String = run
        .frames
        .iter()
        .filter_map(|frame| match frame {
            FromWorker::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(order, "abcabcabcabc");
}

#[test]
fn long_prompt_does_not_block_running_replies() {
    let mut slow = request(&format!("{}$", "x".repeat(400)));
    slow.max_output_tokens = Some(1);
    let run = run(vec![request("abcdefghij$"), slow], 4);
    // The other reply gets its turn between two chunks of the long prompt.
    let before = run.frames.iter().take_while(|frame| matches!(frame, FromWorker::Text { id: 1, .. })).count();
    assert!(before >= 2, "{before} tokens of the first reply came before the second's first; {:?}", run.log);
    assert_eq!(run.text(1), "abcdefghij");
}

#[test]
fn prompt_chunk_size_adapts_to_speed() {
    let mut pace = Pace::default();
    assert_eq!(pace.chunk(), 32);
    pace.observe(64, Duration::from_millis(160));
    assert_eq!(pace.chunk(), 32);
    pace.observe(64, Duration::from_millis(16));
    assert_eq!(pace.chunk(), 256);
    pace.observe(64, Duration::from_secs(2));
    assert_eq!(pace.chunk(), 8);
    pace.observe(5, Duration::from_millis(1));
    assert_eq!(pace.chunk(), 8, "a short rest says little");
}

#[test]
fn excess_requests_wait_in_order() {
    let run = run(vec![request("aa$"), request("bb$"), request("cc$")], 1);
    let order: String = run
        .frames
        .iter()
        .filter_map(|frame| match frame {
            FromWorker::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(order, "aabbcc");
}

#[test]
fn cancelled_reply_ends_immediately_and_others_continue() {
    let run = run_with(vec![request("abcdef"), request("vwxyz$")], 4, |inbox, frame| {
        if matches!(frame, FromWorker::Text { id: 1, text } if text == "c") {
            assert_eq!(inbox.cancel(1), Cancelled::Running);
        }
    });
    assert_eq!(run.text(1), "abc");
    let (reason, usage) = run.end(1).unwrap();
    assert_eq!((reason, usage.output_tokens), (FinishReason::Cancelled, 3));
    assert_eq!(run.text(2), "vwxyz");
}

#[test]
fn queued_request_can_be_cancelled() {
    let run = run_with(vec![request("abc$"), request("xyz$")], 1, |inbox, frame| {
        if matches!(frame, FromWorker::Text { text, .. } if text == "a") {
            assert_eq!(inbox.cancel(2), Cancelled::Queued);
            assert_eq!(inbox.cancel(99), Cancelled::Unknown);
        }
    });
    assert_eq!(run.text(1), "abc");
    assert!(run.text(2).is_empty() && run.end(2).is_none());
}

#[test]
fn stop_text_ends_the_reply_and_is_excluded() {
    let mut stopping = request("one END two$");
    stopping.stop = vec![" END".to_owned()];
    let run = run(vec![stopping], 4);
    assert_eq!(run.text(1), "one");
    let (reason, usage) = run.end(1).unwrap();
    assert_eq!((reason, usage.output_tokens), (FinishReason::Stop, 7));
}

#[test]
fn output_limit_and_context_window_end_a_reply() {
    let mut short = request("abc");
    short.max_output_tokens = Some(5);
    let run = run(vec![short, request("ab")], 4);
    assert_eq!(run.text(1), "abcab");
    assert_eq!(run.end(1).unwrap().0, FinishReason::Length);
    let (reason, usage) = run.end(2).unwrap();
    assert_eq!((reason, usage.input_tokens + usage.output_tokens), (FinishReason::Length, 600));
}

#[test]
fn buffered_text_is_emitted_at_the_limit() {
    let mut short = request("abEN");
    short.max_output_tokens = Some(4);
    short.stop = vec!["END".to_owned()];
    assert_eq!(run(vec![short], 4).text(1), "abEN");
}

#[test]
fn prompt_beyond_the_window_is_rejected_with_sizes() {
    let run = run(vec![request(&"x".repeat(600)), request("ok$")], 4);
    let (code, message) = run.failure(1).unwrap();
    assert_eq!(code, LocalErrorCode::ContextLength);
    assert!(message.contains("600 tokens"), "{message}");
    assert_eq!(run.text(2), "ok");
}

#[test]
fn failing_request_does_not_affect_others() {
    let run = run(vec![request("ab!"), request("xyz$")], 4);
    assert_eq!(run.text(1), "ab");
    assert_eq!(run.failure(1), Some((LocalErrorCode::Internal, "scripted failure")));
    assert_eq!(run.text(2), "xyz");
}

#[test]
fn next_turn_reads_only_new_tokens() {
    let first = request("question one. answer$");
    let mut second = request("question one. answer$");
    second.messages.push(ChatMessage::user(" and more$"));
    let run = run(vec![first, second], 1);
    assert_eq!(run.end(1).unwrap().1.cached_tokens, 0);
    assert_eq!(run.end(2).unwrap().1.cached_tokens, 21);
    assert_eq!(run.log.iter().filter(|line| *line == "open").count(), 1);
}

#[test]
fn other_conversation_does_not_evict_the_first() {
    let title = request("TITLE PLEASE$");
    let mut second = request("question one. answer$");
    second.messages.push(ChatMessage::user(" and more$"));
    let run = run(vec![request("question one. answer$"), title, second], 1);
    assert_eq!(run.end(3).unwrap().1.cached_tokens, 21);
}

#[test]
fn full_queue_returns_the_request() {
    let inbox = Inbox::new(2);
    for id in 0..2 {
        assert!(inbox.push(QueuedRequest { id, request: Box::new(request("a")) }).is_ok());
    }
    assert_eq!(inbox.push(QueuedRequest { id: 2, request: Box::new(request("a")) }).err().unwrap().id, 2);
}

proptest! {
    /// Every request ends exactly once and receives only its own text. No running reply is ever more than one token
    /// ahead of one that began before it.
    #[test]
    fn every_request_ends_once_and_scheduling_is_fair(
        lengths in prop::collection::vec(0usize..30, 1..8),
        max_parallel in 1usize..5,
        cancel in prop::option::of((1u64..8, 0usize..20)),
    ) {
        let requests: Vec<_> = (0u8..).zip(&lengths)
            .map(|(at, &length)| request(&format!("{}$", char::from(b'a' + at).to_string().repeat(length))))
            .collect();
        let sent = RefCell::new(vec![0usize; lengths.len() + 1]);
        let seen = RefCell::new(0usize);
        let run = run_with(requests, max_parallel, |inbox, frame| {
            if let FromWorker::Text { id, .. } = frame {
                sent.borrow_mut()[usize::try_from(*id).unwrap()] += 1;
            }
            *seen.borrow_mut() += 1;
            if let Some((id, at)) = cancel && *seen.borrow() == at {
                inbox.cancel(id);
            }
        });
        for (id, &length) in (1u64..).zip(&lengths) {
            let ends = run.frames.iter().filter(|frame| matches!(frame, FromWorker::Finished { id: got, .. } if *got == id)).count();
            let text = run.text(id);
            let own = char::from(b'a' + u8::try_from(id - 1).unwrap());
            prop_assert!(text.chars().all(|character| character == own));
            if cancel.is_some_and(|(cancelled, _)| cancelled == id) {
                prop_assert!(ends <= 1 && text.len() <= length);
            } else {
                prop_assert_eq!((ends, text.len()), (1, length));
            }
        }
    }
}
