//! Following turns that end: what was said in them is remembered soon after.

use std::time::Duration;

use agentd_base::Timestamp;

use super::Memory;
use crate::engine::{Session, SessionStatus, TurnObserver};
use crate::memory::error::MemoryError;
use crate::memory::jobs::Job;
use crate::memory::store::jobs;

/// Another daemon's change may be stored a little later than the time it bears.
const SLACK: Duration = Duration::from_secs(60);
const TALKS_A_PAGE: u32 = 100;
/// Batches of messages before other workers have their turn.
const BATCHES: usize = 10;

impl TurnObserver for Memory {
    fn turn_ended(&self, session: &Session, _status: SessionStatus, _reason: Option<&str>) {
        if session.conversation_id.is_some() {
            self.remember_wake().notify_one();
        }
    }
}

impl Memory {
    /// Remembers what was said in conversations that changed lately; answers whether there is more. How
    /// far each conversation was gone through is stored; how far all of them were is only remembered
    /// here, and begins again where the last run through all of them began.
    pub(in crate::memory) async fn follow_talks(&self) -> Result<bool, MemoryError> {
        if self.storing_since().await?.is_none() {
            return Ok(false);
        }
        let known = *self.0.followed.lock();
        let followed = match known {
            Some(followed) => followed,
            None => {
                let job = Job::Consolidate.as_str();
                let row = jobs::find_job(&mut self.ground().db.read().await?, job).await?;
                let finished = row.filter(|row| row.finished_at.is_some());
                finished.and_then(|row| row.started_at).unwrap_or(Timestamp::from_micros(0))
            }
        };
        let micros = i64::try_from(SLACK.as_micros()).unwrap_or(0);
        let mut since = Timestamp::from_micros(followed.as_micros().saturating_sub(micros));
        let mut after = String::new();
        let (mut batches, mut has_more) = (0, false);
        loop {
            let (due, next) =
                self.due_talks(since, &after, TALKS_A_PAGE, |talk, known| known.revision < talk.revision).await?;
            for talk in due {
                has_more |= match self.remember_talk(&talk, false).await {
                    Ok((_, has_more)) => has_more,
                    Err(MemoryError::Overtaken) => true,
                    Err(error) => return Err(error),
                };
                batches += 1;
                if batches == BATCHES {
                    return Ok(true);
                }
            }
            match next {
                Some(next) => (since, after) = next,
                None => break,
            }
        }
        if !has_more {
            *self.0.followed.lock() = Some(since.max(followed));
        }
        Ok(has_more)
    }
}
