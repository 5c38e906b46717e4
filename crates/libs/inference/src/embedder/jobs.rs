//! Pending calls with texts on the daemon's side: order of the texts, and completion of the calls.
//!
//! Calls take turns, one text at a time, so that a call with one text does not wait for a call with a thousand.
//!
//! Invariants: every call is answered once or was cancelled by its caller; a text is counted until its call is
//! complete.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::LocalError;
use crate::embedder::EmbeddedText;

pub(super) type TextsAnswer = oneshot::Sender<Result<Vec<EmbeddedText>, LocalError>>;

/// Position of a text's result in its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextPosition {
    job: u64,
    index: usize,
}

#[derive(Debug)]
struct Job {
    /// Texts not yet started, with their positions.
    texts: VecDeque<(usize, String)>,
    done: Vec<Option<EmbeddedText>>,
    missing: usize,
    answer: TextsAnswer,
}

#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: HashMap<u64, Job>,
    /// Calls with texts not yet started; the next one comes first.
    turns: VecDeque<u64>,
    next_job: u64,
}

impl Jobs {
    pub(super) fn add(&mut self, texts: Vec<String>, answer: TextsAnswer) {
        let count = texts.len();
        let id = self.next_job;
        self.next_job += 1;
        let job = Job {
            texts: texts.into_iter().enumerate().collect(),
            done: std::iter::repeat_with(|| None).take(count).collect(),
            missing: count,
            answer,
        };
        self.jobs.insert(id, job);
        self.turns.push_back(id);
    }

    /// Returns the number of texts of all incomplete calls.
    pub(super) fn texts(&self) -> usize {
        self.jobs.values().map(|job| job.missing).sum()
    }

    /// Returns the total size of the texts that were not started.
    pub(super) fn bytes(&self) -> usize {
        self.jobs.values().flat_map(|job| &job.texts).map(|(_, text)| text.len()).sum()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns the next text in turn; cancelled calls are dropped on the way.
    pub(super) fn next(&mut self) -> Option<(TextPosition, String)> {
        while let Some(id) = self.turns.pop_front() {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if job.answer.is_closed() {
                self.jobs.remove(&id);
                continue;
            }
            let Some((index, text)) = job.texts.pop_front() else { continue };
            if !job.texts.is_empty() {
                self.turns.push_back(id);
            }
            return Some((TextPosition { job: id, index }, text));
        }
        None
    }

    /// Stores the vectors of a text; the last one completes the call.
    pub(super) fn finish(&mut self, position: TextPosition, embedded: EmbeddedText) {
        let Some(job) = self.jobs.get_mut(&position.job) else { return };
        job.done[position.index] = Some(embedded);
        job.missing -= 1;
        if job.missing == 0
            && let Some(job) = self.jobs.remove(&position.job)
        {
            // The caller may have stopped waiting.
            let _ = job.answer.send(Ok(job.done.into_iter().flatten().collect()));
        }
    }

    /// Fails the call that the text belongs to.
    pub(super) fn fail(&mut self, position: TextPosition, error: LocalError) {
        if let Some(job) = self.jobs.remove(&position.job) {
            let _ = job.answer.send(Err(error));
        }
    }

    pub(super) fn fail_all(&mut self, error: &LocalError) {
        self.turns.clear();
        for (_, job) in self.jobs.drain() {
            let _ = job.answer.send(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalErrorCode;

    fn call(jobs: &mut Jobs, texts: &[&str]) -> oneshot::Receiver<Result<Vec<EmbeddedText>, LocalError>> {
        let (answer, answered) = oneshot::channel();
        jobs.add(texts.iter().map(|&text| text.to_owned()).collect(), answer);
        answered
    }

    fn embedded(left_out: usize) -> EmbeddedText {
        EmbeddedText { left_out, ..EmbeddedText::default() }
    }

    #[test]
    fn calls_take_turns_and_preserve_text_order() {
        let mut jobs = Jobs::default();
        let mut long = call(&mut jobs, &["a", "b", "c"]);
        let mut short = call(&mut jobs, &["x"]);
        let begun: Vec<_> = std::iter::from_fn(|| jobs.next()).collect();
        let order: Vec<&str> = begun.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(order, ["a", "x", "b", "c"]);
        assert!(!jobs.has_waiting());
        assert_eq!(jobs.texts(), 4);
        jobs.finish(begun[1].0, embedded(9));
        assert_eq!(short.try_recv().unwrap().unwrap(), [embedded(9)]);
        for at in [3, 0, 2] {
            assert!(long.try_recv().is_err());
            jobs.finish(begun[at].0, embedded(at));
        }
        assert_eq!(long.try_recv().unwrap().unwrap(), [embedded(0), embedded(2), embedded(3)]);
        assert_eq!(jobs.texts(), 0);
    }

    #[test]
    fn cancelled_call_is_not_started() {
        let mut jobs = Jobs::default();
        drop(call(&mut jobs, &["a", "b"]));
        let _kept = call(&mut jobs, &["x"]);
        assert_eq!(jobs.next().unwrap().1, "x");
        assert_eq!((jobs.next(), jobs.texts(), jobs.bytes()), (None, 1, 0));
    }

    #[test]
    fn failed_text_fails_only_its_call() {
        let mut jobs = Jobs::default();
        let mut first = call(&mut jobs, &["a", "b"]);
        let mut second = call(&mut jobs, &["x"]);
        let (a, x, b) = (jobs.next().unwrap().0, jobs.next().unwrap().0, jobs.next().unwrap().0);
        jobs.fail(a, LocalError::new(LocalErrorCode::Internal, "no"));
        assert_eq!(first.try_recv().unwrap().unwrap_err().message, "no");
        jobs.finish(b, embedded(0));
        jobs.finish(x, embedded(1));
        assert_eq!(second.try_recv().unwrap().unwrap(), [embedded(1)]);
    }
}
