//! Progress of this daemon in following conversations. It is not persisted: after a start, following resumes where the
//! last complete run over all conversations began.

use std::time::Duration;

use agentd_base::Timestamp;

/// A change of another daemon may be stored up to this much later than its timestamp. A run goes back this far, at most
/// once in this time.
const LOOK_BACK: Duration = Duration::from_secs(60);
/// Changes of this daemon are stored nearly in the order of their timestamps.
const OVERLAP: Duration = Duration::from_millis(100);

/// Progress in following conversations.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Every change before this was processed.
    through: Option<Timestamp>,
    looked_back_at: Option<Timestamp>,
    /// A run that has not ended.
    pub(super) run: Option<Run>,
}

/// A run over the conversations that changed since some time, ordered by their last change.
#[derive(Debug)]
pub(super) struct Run {
    /// When it began, if it looks back.
    looks_back_at: Option<Timestamp>,
    /// Where it continues: a time, and a conversation of that time.
    pub(super) position: (Timestamp, String),
    /// Start of the next run, if this one left conversations unfinished.
    pub(super) unfinished: Option<Timestamp>,
}

impl Run {
    fn since(since: Timestamp, looks_back_at: Option<Timestamp>) -> Self {
        Self { looks_back_at, position: (since, String::new()), unfinished: None }
    }

    /// The first run after a start. `finished` is when the last whole run over all conversations began.
    pub(super) fn first(finished: Option<Timestamp>, now: Timestamp) -> Self {
        Self::since(finished.unwrap_or(Timestamp::from_micros(0)) - LOOK_BACK, Some(now))
    }
}

impl Followed {
    /// The next run; `None` before the first run has ended.
    pub(super) fn next_run(&self, now: Timestamp) -> Option<Run> {
        let (through, looked_back_at) = self.through.zip(self.looked_back_at)?;
        let since = through - OVERLAP;
        if looked_back_at <= now && now < looked_back_at + LOOK_BACK {
            return Some(Run::since(since, None));
        }
        Some(Run::since(since.min(looked_back_at.min(now) - LOOK_BACK), Some(now)))
    }

    /// Ends a run; returns whether it left something for the next one.
    pub(super) fn end(&mut self, run: &Run) -> bool {
        self.looked_back_at = run.looks_back_at.or(self.looked_back_at);
        self.through = run.unfinished.or(self.through.max(Some(run.position.0)));
        run.unfinished.is_some()
    }
}
