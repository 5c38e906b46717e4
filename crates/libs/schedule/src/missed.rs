//! What is to be done about slots that passed while nobody was there.

use std::time::Duration;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// How many of the slots that are passed over are named, the newest ones.
pub const MAX_PASSED_OVER: usize = 100;

/// What happens to slots that were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// One run, for the newest of them.
    #[default]
    RunOnce,
    /// None; the job goes on with its next slot.
    Skip,
    /// A run for each, the newest ones up to a cap.
    RunAll,
}

/// What was found after a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatchUp {
    /// The slots to run, oldest first.
    pub run: Vec<Timestamp>,
    /// The slots that get no run, oldest first; at most [`MAX_PASSED_OVER`], the newest.
    pub passed_over: Vec<Timestamp>,
    /// Older slots were passed over too and are not listed.
    pub more_passed_over: bool,
    /// The first slot after now.
    pub next: Option<Timestamp>,
}

/// What to do about the slots after `last` and up to `now`, all of which count as missed. `last` is the last
/// scheduled slot, or when the job was made or resumed; intervals count from it. `cap` bounds `run_all`.
#[must_use]
pub fn missed(schedule: &Schedule, last: Timestamp, now: Timestamp, policy: MisfirePolicy, cap: usize) -> CatchUp {
    catch_up(schedule, last, now, Duration::ZERO, policy, cap)
}

/// The same where the newest slot is on time if it is less than `grace` old: it runs, whatever the policy. A slot
/// that a later one follows was missed, however young it is, or a short interval would have no missed slots.
///
/// A clock that was set back (`now` before `last`) finds nothing to do, and a next slot after `last`: no slot is
/// ever handed out twice.
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
    // Newest first: the ones to run, then the ones that are named as passed over, then one more to know of more.
    let mut run = Vec::new();
    let mut passed_over = Vec::new();
    let mut more_passed_over = false;
    let mut slot_before = newest;
    while let Some(slot) = slot_before {
        if run.len() < wanted {
            run.push(slot);
        } else if passed_over.len() < MAX_PASSED_OVER {
            passed_over.push(slot);
        } else {
            more_passed_over = true;
            break;
        }
        slot_before = schedule.latest_between(last, Timestamp::from_micros(slot.as_micros() - 1), last);
    }
    run.reverse();
    passed_over.reverse();
    CatchUp { run, passed_over, more_passed_over, next }
}
