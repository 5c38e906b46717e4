//! Handling of slots that passed while the daemon was not running.

use std::time::Duration;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// Maximum number of skipped slots that are listed; the newest ones are.
pub const MAX_SKIPPED: usize = 100;

/// Policy for missed slots: `run_once` (one run for the newest missed slot), `skip` (no run; the job continues with its
/// next slot) or `run_all` (a run for each missed slot, limited to the newest ones).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// One run for the newest missed slot.
    #[default]
    RunOnce,
    /// No run; the job continues with its next slot.
    Skip,
    /// A run for each missed slot, limited to the newest ones.
    RunAll,
}

/// Result of catching up after a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatchUp {
    /// Slots to run, oldest first.
    pub run: Vec<Timestamp>,
    /// Slots without a run, oldest first; the newest [`MAX_SKIPPED`] of them.
    pub skipped: Vec<Timestamp>,
    /// Whether older slots were skipped as well and are not listed.
    pub has_more_skipped: bool,
    /// First slot after now.
    pub next: Option<Timestamp>,
}

/// Classifies the slots after `last` and up to `now`, all of which count as missed. `last` is the last scheduled slot,
/// or the time when the job was created or resumed; intervals count from it. `cap` limits `run_all`.
#[must_use]
pub fn missed(schedule: &Schedule, last: Timestamp, now: Timestamp, policy: MisfirePolicy, cap: usize) -> CatchUp {
    catch_up(schedule, last, now, Duration::ZERO, policy, cap)
}

/// Like [`missed`], but the newest slot is on time if it is less than `grace` old: it then runs regardless of the
/// policy. A slot followed by a later one counts as missed however young it is; otherwise a short interval would have
/// no missed slots.
///
/// If the clock was set back (`now` before `last`), no slot is due, and the next slot is after `last`: no slot is
/// returned twice.
#[must_use]
pub fn catch_up(
    schedule: &Schedule,
    last: Timestamp,
    now: Timestamp,
    grace: Duration,
    policy: MisfirePolicy,
    cap: usize,
) -> CatchUp {
    let next = schedule.next_after(now.max(last), last);
    let newest = schedule.latest_between(last, now, last);
    let wanted = match policy {
        MisfirePolicy::RunOnce => 1,
        MisfirePolicy::Skip => usize::from(newest.is_some_and(|slot| now.since(slot) < grace)),
        MisfirePolicy::RunAll => cap,
    };
    // Newest first: slots to run, then listed skipped slots, then one more to detect further ones.
    let mut run = Vec::new();
    let mut skipped = Vec::new();
    let mut has_more_skipped = false;
    let mut slot_before = newest;
    while let Some(slot) = slot_before {
        if run.len() < wanted {
            run.push(slot);
        } else if skipped.len() < MAX_SKIPPED {
            skipped.push(slot);
        } else {
            has_more_skipped = true;
            break;
        }
        slot_before = schedule.latest_between(last, Timestamp::from_micros(slot.as_micros() - 1), last);
    }
    run.reverse();
    skipped.reverse();
    CatchUp { run, skipped, has_more_skipped, next }
}
