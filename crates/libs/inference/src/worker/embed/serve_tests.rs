//! Tests of the queues with an encoder without weights: one token per character, and a vector that contains the number
//! of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;
use proptest::prelude::*;

use crate::embedder::chunker::Chunk;
use crate::embedder::{EmbeddedText, EmbedderLimits, NameKind, NamedSpan};
use crate::protocol::FromWorker;
use crate::worker::embed::open::Encoder;
use crate::worker::embed::serve::serve_all;
use crate::worker::embed::{OpenText, Queue, QueueKind};
use crate::{LocalError, LocalErrorCode};

type BeforeRow = Arc<dyn Fn(&[i32]) + Send + Sync>;

struct Scripted {
    before: Option<BeforeRow>,
}

impl Encoder for Scripted {
    fn tokenize(&self, word: &str, into: &mut Vec<i32>) {
        into.extend(word.chars().map(|character| character as i32).filter(|&token| token != 0));
    }

    fn encode(&mut self, row: &[i32]) -> Result<Vec<f32>, LocalError> {
        if let Some(before) = &self.before {
            before(row);
        }
        if row.contains(&('!' as i32)) {
            return Err(LocalError::new(LocalErrorCode::Internal, "scripted failure"));
        }
        Ok(vec![f32::from(u16::try_from(row.len()).unwrap())])
    }

    /// A word in angle brackets is a person.
    fn names(&mut self, text: &str, chunk: &Chunk) -> Result<Option<Vec<NamedSpan>>, LocalError> {
        let names = chunk.words.iter().filter(|word| text[word.range.clone()].starts_with('<'));
        Ok(Some(names.map(|word| NamedSpan { range: word.range.clone(), kind: NameKind::Person }).collect()))
    }
}

const LIMITS: EmbedderLimits = EmbedderLimits { max_chunk_tokens: 102, overlap_tokens: 0, max_chunks: 3 };

fn push(queue: &Queue, id: u64, text: &str, is_query: bool) {
    let kind = if is_query { QueueKind::Queries } else { QueueKind::Texts };
    assert!(queue.push(OpenText::new(id, text.to_owned(), is_query, &LIMITS), kind));
}

type Answers = Vec<(u64, Result<EmbeddedText, String>)>;

/// Returns the results in the order in which they were sent, with one thread per queue.
fn run(queue: &Queue, before: Option<BeforeRow>) -> Answers {
    let answers = Mutex::new(Vec::new());
    queue.close();
    serve_all(&|| Ok(Scripted { before: before.clone() }), queue, 1, &|frame| match frame {
        FromWorker::Embedded { id, embedded, .. } => answers.lock().push((*id, Ok(embedded.clone()))),
        FromWorker::Failed { id, message, .. } => answers.lock().push((*id, Err(message.clone()))),
        FromWorker::Working => {}
        other => panic!("{other:?}"),
    });
    answers.into_inner()
}

#[test]
fn query_is_answered_while_a_text_is_embedded() {
    let queue = Queue::new(100);
    push(&queue, 1, "text", false);
    push(&queue, 2, "why", true);
    let (answered, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let answered = Mutex::new(answered);
    // The text is blocked in the middle until the query was embedded.
    let before: BeforeRow =
        Arc::new(
            move |row| {
                if row.len() == 4 { wait.lock().recv().unwrap() } else { answered.lock().send(()).unwrap() }
            },
        );
    let answers = run(&queue, Some(before));
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
}

#[test]
fn long_text_does_not_block_short_ones() {
    let queue = Queue::new(100);
    push(&queue, 1, &"word ".repeat(60), false);
    push(&queue, 2, "short", false);
    let answers = run(&queue, None);
    assert_eq!(answers[0].0, 2);
    assert_eq!(answers[1].1.as_ref().unwrap().chunks.len(), 3);
}

#[test]
fn chunks_beyond_the_limit_are_counted() {
    let queue = Queue::new(100);
    push(&queue, 1, &"word ".repeat(125), false);
    let text = run(&queue, None).remove(0).1.unwrap();
    assert_eq!((text.chunks.len(), text.left_out), (3, 2));
    assert_eq!(text.chunks.iter().map(|chunk| chunk.range.clone()).collect::<Vec<_>>(), [0..124, 125..249, 250..374]);
    assert!(text.chunks.iter().all(|chunk| chunk.vector == [100.0]));
    let queue = Queue::new(100);
    push(&queue, 2, &"word ".repeat(60), true);
    let query = run(&queue, None).remove(0).1.unwrap();
    assert_eq!((query.chunks.len(), query.left_out), (1, 0));
}

#[test]
fn text_without_tokens_is_not_encoded() {
    let queue = Queue::new(100);
    for (id, text) in ["", "  \n", "\0\0"].iter().enumerate() {
        push(&queue, u64::try_from(id).unwrap(), text, id == 0);
    }
    let rows = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rows);
    let answers = run(&queue, Some(Arc::new(move |_| assert!(counted.fetch_add(1, Ordering::Relaxed) < 100))));
    assert_eq!((answers.len(), rows.load(Ordering::Relaxed)), (3, 0));
    assert!(answers.iter().all(|(_, answer)| answer.as_ref().unwrap() == &EmbeddedText::default()), "{answers:?}");
}

#[test]
fn failing_text_does_not_affect_others() {
    let queue = Queue::new(100);
    for (id, text) in ["before", "fails!", "after"].iter().enumerate() {
        push(&queue, u64::try_from(id).unwrap(), text, false);
    }
    let answers = run(&queue, None);
    let failed: Vec<u64> = answers.iter().filter(|(_, answer)| answer.is_err()).map(|(id, _)| *id).collect();
    assert_eq!((failed, answers.len()), (vec![1], 3));
}

#[test]
fn unavailable_encoder_fails_each_text() {
    let queue = Queue::new(100);
    push(&queue, 1, "text", false);
    push(&queue, 2, "query", true);
    queue.close();
    let failed = AtomicUsize::new(0);
    let open = || Err::<Scripted, _>(LocalError::new(LocalErrorCode::Internal, "no memory"));
    serve_all(&open, &queue, 2, &|frame| {
        assert!(matches!(frame, FromWorker::Failed { message, .. } if message == "no memory"));
        failed.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(failed.into_inner(), 2);
}

#[test]
fn full_queue_rejects_texts() {
    let queue = Queue::new(2);
    push(&queue, 1, "a", true);
    push(&queue, 2, "b", false);
    assert!(!queue.push(OpenText::new(3, "c".to_owned(), true, &LIMITS), QueueKind::Queries));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_text_is_answered_once(
        texts in prop::collection::vec(("([a-z]{1,20}[ .]{1,2}|\0){0,100}", any::<bool>()), 0..40),
    ) {
        let queue = Queue::new(100);
        for (id, (text, is_query)) in texts.iter().enumerate() {
            push(&queue, u64::try_from(id).unwrap(), text, *is_query);
        }
        let answers = run(&queue, Some(Arc::new(|row| assert!((1..=100).contains(&row.len())))));
        let mut ids: Vec<usize> = answers.iter().map(|(id, _)| usize::try_from(*id).unwrap()).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..texts.len()).collect::<Vec<_>>());
        for (id, answer) in &answers {
            let (text, is_query) = &texts[usize::try_from(*id).unwrap()];
            let embedded = answer.as_ref().unwrap();
            let has_words = text.contains(|character: char| character != '\0' && !character.is_whitespace());
            prop_assert_eq!(embedded.chunks.is_empty(), !has_words);
            let most = if *is_query { 1 } else { 3 };
            prop_assert!(embedded.chunks.len() <= most);
            for chunk in &embedded.chunks {
                prop_assert!(text.get(chunk.range.clone()).is_some());
            }
        }
    }
}
