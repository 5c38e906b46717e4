//! The schedule over an encoder without weights: a token for each character, and a vector that says
//! which batch it was made in, and of how many tokens.

use std::cell::RefCell;

use proptest::prelude::*;

use crate::embedder::{EmbeddedText, EmbedderLimits};
use crate::protocol::FromWorker;
use crate::worker::embed::schedule::{BATCH_TOKENS, Encoder, MAX_BATCH_CHUNKS, MAX_BATCH_TOKENS, serve};
use crate::worker::embed::{Queue, Waiting};
use crate::{LocalError, LocalErrorCode};

#[derive(Default)]
struct Scripted<'q> {
    /// The lengths of the rows of each batch.
    batches: Vec<Vec<usize>>,
    /// Called before each batch, with its number.
    before: Option<Box<dyn Fn(usize) + 'q>>,
}

impl Encoder for Scripted<'_> {
    fn tokenize(&self, word: &str, into: &mut Vec<i32>) {
        into.extend(word.chars().map(|character| character as i32).filter(|&token| token != 0));
    }

    fn encode(&mut self, rows: &[&[i32]]) -> Result<Vec<Vec<f32>>, LocalError> {
        if let Some(before) = &self.before {
            before(self.batches.len());
        }
        if rows.iter().any(|row| row.contains(&('!' as i32))) {
            return Err(LocalError::new(LocalErrorCode::Internal, "scripted failure"));
        }
        let batch = self.batches.len();
        self.batches.push(rows.iter().map(|row| row.len()).collect());
        Ok(rows
            .iter()
            .map(|row| [batch, row.len()].map(|number| f32::from(u16::try_from(number).unwrap())).into())
            .collect())
    }
}

fn limits() -> EmbedderLimits {
    EmbedderLimits { max_chunk_tokens: 102, overlap_tokens: 0, max_chunks: 3 }
}

fn push(queue: &Queue, id: u64, text: &str, is_query: bool) {
    assert!(queue.push(Waiting { id, text: text.to_owned() }, is_query));
}

/// The answers in the order in which they were sent.
fn run(encoder: &mut Scripted<'_>, queue: &Queue) -> Vec<(u64, Result<EmbeddedText, String>)> {
    let answers = RefCell::new(Vec::new());
    queue.close();
    serve(encoder, queue, &limits(), &|frame| match frame {
        FromWorker::Embedded { id, embedded, .. } => answers.borrow_mut().push((*id, Ok(embedded.clone()))),
        FromWorker::Failed { id, message, .. } => answers.borrow_mut().push((*id, Err(message.clone()))),
        FromWorker::Working => {}
        other => panic!("{other:?}"),
    });
    answers.into_inner()
}

#[test]
fn texts_are_embedded_together_as_far_as_a_batch_goes() {
    let queue = Queue::new(100);
    for id in 0..8 {
        push(&queue, id, &"x".repeat(38), false);
    }
    let mut encoder = Scripted::default();
    let answers = run(&mut encoder, &queue);
    assert_eq!(answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(encoder.batches, [vec![38; 3], vec![38; 3], vec![38; 2]]);
}

#[test]
fn a_query_goes_before_every_text_that_is_not_begun() {
    let queue = Queue::new(100);
    for id in 0..9 {
        push(&queue, id, &"x".repeat(38), false);
    }
    let mut encoder = Scripted {
        before: Some(Box::new(|batch| {
            if batch == 0 {
                push(&queue, 100, "why", true);
                push(&queue, 101, "how", true);
            }
        })),
        ..Scripted::default()
    };
    let order: Vec<u64> = run(&mut encoder, &queue).iter().map(|(id, _)| *id).collect();
    assert_eq!(order, [0, 1, 2, 100, 101, 3, 4, 5, 6, 7, 8]);
    assert_eq!(encoder.batches[1], [3, 3]);
}

#[test]
fn a_long_text_does_not_keep_short_ones_waiting() {
    let queue = Queue::new(100);
    push(&queue, 1, &"word ".repeat(60), false);
    push(&queue, 2, "short", false);
    let answers = run(&mut Scripted::default(), &queue);
    assert_eq!(answers[0].0, 2);
    assert_eq!(answers[1].1.as_ref().unwrap().chunks.len(), 3);
}

#[test]
fn chunks_beyond_the_last_are_counted() {
    let queue = Queue::new(100);
    push(&queue, 1, &"word ".repeat(125), false);
    push(&queue, 2, &"word ".repeat(60), true);
    let mut encoder = Scripted::default();
    let answers = run(&mut encoder, &queue);
    assert_eq!(answers[0].0, 2);
    assert_eq!(answers[0].1.as_ref().unwrap().chunks.len(), 1);
    let text = answers[1].1.as_ref().unwrap();
    assert_eq!((text.chunks.len(), text.left_out), (3, 2));
    assert_eq!(text.chunks.iter().map(|chunk| chunk.range.clone()).collect::<Vec<_>>(), [0..124, 125..249, 250..374]);
    assert_eq!(encoder.batches, [[100]; 4]);
}

#[test]
fn what_has_no_token_is_answered_without_the_engine() {
    let queue = Queue::new(100);
    for (id, text) in ["", "  \n", "\0\0"].iter().enumerate() {
        push(&queue, u64::try_from(id).unwrap(), text, id == 0);
    }
    let mut encoder = Scripted::default();
    let answers = run(&mut encoder, &queue);
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|(_, answer)| answer.as_ref().unwrap() == &EmbeddedText::default()), "{answers:?}");
    assert!(encoder.batches.is_empty());
}

#[test]
fn a_batch_that_fails_ends_its_texts_and_no_others() {
    let queue = Queue::new(100);
    for (id, text) in ["fails!".to_owned(), "x".repeat(90), "y".repeat(90)].iter().enumerate() {
        push(&queue, u64::try_from(id).unwrap(), text, false);
    }
    let answers = run(&mut Scripted::default(), &queue);
    let failed: Vec<u64> = answers.iter().filter(|(_, answer)| answer.is_err()).map(|(id, _)| *id).collect();
    assert_eq!((failed, answers.len()), (vec![0, 1], 3));
}

#[test]
fn a_full_queue_takes_nothing() {
    let queue = Queue::new(2);
    push(&queue, 1, "a", true);
    push(&queue, 2, "b", false);
    assert!(!queue.push(Waiting { id: 3, text: "c".to_owned() }, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_text_is_answered_once_within_the_limits_of_the_engine(
        texts in prop::collection::vec(("([a-z]{1,20}[ .]{1,2}|\0){0,100}", any::<bool>()), 0..40),
    ) {
        let queue = Queue::new(100);
        for (id, (text, is_query)) in texts.iter().enumerate() {
            push(&queue, u64::try_from(id).unwrap(), text, *is_query);
        }
        let mut encoder = Scripted::default();
        let answers = run(&mut encoder, &queue);
        let mut ids: Vec<usize> = answers.iter().map(|(id, _)| usize::try_from(*id).unwrap()).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..texts.len()).collect::<Vec<_>>());
        for batch in &encoder.batches {
            let tokens: usize = batch.iter().map(|length| length + 2).sum();
            prop_assert!(batch.len() <= MAX_BATCH_CHUNKS && tokens <= MAX_BATCH_TOKENS);
        }
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
        prop_assert!(BATCH_TOKENS <= MAX_BATCH_TOKENS);
    }
}
