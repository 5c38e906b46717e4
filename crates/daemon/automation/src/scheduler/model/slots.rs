//! Planning of the slots of a due job: which become runs, which are skipped and why, and whether open runs are
//! replaced.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_schedule::{CatchUp, MisfirePolicy, catch_up};

use super::job::{Job, JobStatus, OverlapPolicy};
use super::run::{MAX_OPEN_RUNS, Run, RunCause, RunId, too_many_open_runs};

/// Maximum age at which the newest slot counts as on time and runs regardless of the misfire policy. Earlier slots were
/// missed.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// Maximum number of slots that `run_all` catches up on in one tick, and of pending runs of a job that it permits.
pub(crate) const MAX_CAUGHT_UP: usize = 10;
/// Maximum number of missed slots recorded as skipped runs, newest first.
const MAX_SKIPPED_SHOWN: usize = 10;

/// Numbers of open runs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenRuns {
    pub(crate) running: usize,
    pub(crate) pending: usize,
}

/// A slot and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedSlot {
    pub(crate) at: Timestamp,
    /// Reason the slot is skipped; `None` if it runs.
    pub(crate) skipped: Option<String>,
    pub(crate) may_overlap: bool,
}

impl PlannedSlot {
    /// Builds the run of the slot. A skipped slot gets a run that has already ended.
    pub(crate) fn new_run(&self, job: &Job, id: RunId, now: Timestamp) -> Run {
        let mut run = Run {
            scheduled_for: Some(self.at),
            may_overlap: self.may_overlap,
            ..job.new_run(id, RunCause::Schedule, now)
        };
        if let Some(reason) = &self.skipped {
            run.skip(reason, now);
        }
        run
    }
}

/// Decisions of a tick for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Planned slots, oldest first.
    pub(crate) slots: Vec<PlannedSlot>,
    /// Whether the open runs must be stopped.
    pub(crate) replaces_open: bool,
    pub(crate) counted_from: Timestamp,
    pub(crate) next_run_at: Option<Timestamp>,
}

/// Plans every slot up to `now`.
pub(crate) fn plan(job: &Job, open: OpenRuns, now: Timestamp) -> Plan {
    let unchanged = Plan {
        slots: Vec::new(),
        replaces_open: false,
        counted_from: job.counted_from,
        next_run_at: job.next_run_at.filter(|_| job.status == JobStatus::Active),
    };
    if job.status != JobStatus::Active {
        return unchanged;
    }
    let CatchUp { run, skipped, next, .. } =
        catch_up(&job.schedule, job.counted_from, now, GRACE, job.misfire, MAX_CAUGHT_UP);
    let newest = run.last().copied().max(skipped.last().copied());
    let is_catching_up = run.len() + skipped.len() > 1 || newest.is_some_and(|at| now.since(at) >= GRACE);
    // Slots that `run_all` catches up on run sequentially, regardless of the overlap policy.
    let is_sequential = is_catching_up && job.misfire == MisfirePolicy::RunAll;
    let hidden = skipped.len().saturating_sub(MAX_SKIPPED_SHOWN);
    let mut slots: Vec<PlannedSlot> = skipped
        .into_iter()
        .skip(hidden)
        .map(|at| PlannedSlot { at, skipped: Some(missed_reason(job.misfire)), may_overlap: false })
        .collect();
    let mut replaces_open = false;
    let mut open = open;
    for at in run {
        let is_busy = open.running + open.pending > 0;
        let skipped = match job.overlap {
            // Bounds the queue of a daemon that is always late.
            _ if is_sequential && open.pending >= MAX_CAUGHT_UP => Some(missed_reason(job.misfire)),
            _ if is_sequential || !is_busy => None,
            OverlapPolicy::Allow if open.running + open.pending >= MAX_OPEN_RUNS => Some(too_many_open_runs()),
            OverlapPolicy::Allow => None,
            OverlapPolicy::Skip => Some("the previous run was still in progress".to_owned()),
            OverlapPolicy::BufferOne if open.pending > 0 => {
                Some("another slot is already queued until the previous run ends".to_owned())
            }
            OverlapPolicy::BufferOne => None,
            // Only `run_all` runs several slots in one tick, and those run sequentially.
            OverlapPolicy::CancelOther => {
                replaces_open = true;
                open = OpenRuns::default();
                None
            }
        };
        if skipped.is_none() {
            open.pending += 1;
        }
        let may_overlap = job.overlap == OverlapPolicy::Allow && !is_sequential;
        slots.push(PlannedSlot { at, skipped, may_overlap });
    }
    slots.sort_by_key(|slot| slot.at);
    let counted_from = newest.unwrap_or(job.counted_from);
    Plan { slots, replaces_open, counted_from, next_run_at: next }
}

fn missed_reason(policy: MisfirePolicy) -> String {
    match policy {
        MisfirePolicy::RunOnce => "the slot was missed; only the newest missed slot is run".to_owned(),
        MisfirePolicy::Skip => "the slot was missed, and the job's misfire policy skips missed slots".to_owned(),
        MisfirePolicy::RunAll => {
            format!("the slot was missed; at most {MAX_CAUGHT_UP} missed slots are run")
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_schedule::{ScheduleSpec, Zone};
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_767_600_000_000_000 + seconds * 1_000_000)
    }

    fn job(interval: i64, overlap: OverlapPolicy, misfire: MisfirePolicy) -> Job {
        let schedule = ScheduleSpec::every(interval).check(&Zone::UTC).unwrap();
        let mut job = Job::blank("job_1".into(), "agent_1".into(), schedule, at(0));
        job.overlap = overlap;
        job.misfire = misfire;
        assert!(job.count_from(at(0)));
        job
    }

    fn runs(plan: &Plan) -> Vec<Timestamp> {
        plan.slots.iter().filter(|slot| slot.skipped.is_none()).map(|slot| slot.at).collect()
    }

    const BUSY: OpenRuns = OpenRuns { running: 1, pending: 0 };
    const FULL: OpenRuns = OpenRuns { running: 1, pending: 1 };

    #[test]
    fn overlapping_slot_follows_the_overlap_policy() {
        for (overlap, open, expected) in [
            (OverlapPolicy::Skip, OpenRuns::default(), 1),
            (OverlapPolicy::Skip, BUSY, 0),
            (OverlapPolicy::BufferOne, BUSY, 1),
            (OverlapPolicy::BufferOne, FULL, 0),
            (OverlapPolicy::Allow, FULL, 1),
            (OverlapPolicy::Allow, OpenRuns { running: 8, pending: MAX_OPEN_RUNS - 9 }, 1),
            (OverlapPolicy::Allow, OpenRuns { running: 8, pending: MAX_OPEN_RUNS - 8 }, 0),
            (OverlapPolicy::CancelOther, FULL, 1),
        ] {
            let plan = plan(&job(600, overlap, MisfirePolicy::RunOnce), open, at(600));
            assert_eq!(runs(&plan).len(), expected, "{overlap:?} {open:?}");
            assert_eq!(plan.slots.len(), 1, "a slot that gets no run stays visible");
            assert_eq!(plan.replaces_open, overlap == OverlapPolicy::CancelOther);
            assert_eq!((plan.counted_from, plan.next_run_at), (at(600), Some(at(1_200))));
        }
    }

    #[test]
    fn missed_slots_follow_the_misfire_policy() {
        let late = at(10 * 600 + 300);
        for (misfire, expected) in [
            (MisfirePolicy::RunOnce, vec![at(6_000)]),
            (MisfirePolicy::Skip, vec![]),
            (MisfirePolicy::RunAll, (1..=10).map(|slot| at(slot * 600)).collect()),
        ] {
            let plan = plan(&job(600, OverlapPolicy::Skip, misfire), OpenRuns::default(), late);
            assert_eq!(runs(&plan), expected, "{misfire:?}");
            assert_eq!(plan.slots.len(), 10, "{misfire:?}");
            assert_eq!(plan.next_run_at, Some(at(6_600)));
        }
    }

    #[test]
    fn short_interval_slots_can_be_missed() {
        let all = [OverlapPolicy::Skip, OverlapPolicy::BufferOne, OverlapPolicy::Allow, OverlapPolicy::CancelOther];
        for overlap in all {
            let newest = plan(&job(1, overlap, MisfirePolicy::RunOnce), OpenRuns::default(), at(12));
            assert_eq!(runs(&newest), [at(12)], "{overlap:?}");
            let reasons: Vec<_> = newest.slots.iter().filter_map(|slot| slot.skipped.as_deref()).collect();
            assert_eq!(reasons.len(), 10, "{overlap:?}");
            assert!(reasons.iter().all(|reason| reason.contains("missed")), "{reasons:?}");
            let skipped = plan(&job(5, overlap, MisfirePolicy::Skip), OpenRuns::default(), at(97));
            assert_eq!(runs(&skipped), [at(95)], "{overlap:?}");
            let each = plan(&job(5, overlap, MisfirePolicy::RunAll), BUSY, at(97));
            assert_eq!(runs(&each), (10..=19).map(|slot| at(slot * 5)).collect::<Vec<_>>(), "{overlap:?}");
            assert!(each.slots.iter().all(|slot| !slot.may_overlap), "one after the other: {overlap:?}");
            assert!(!each.replaces_open, "{overlap:?}");
        }
    }

    #[test]
    fn catch_up_queue_is_bounded() {
        let full = OpenRuns { running: 1, pending: 7 };
        let plan = plan(&job(5, OverlapPolicy::Skip, MisfirePolicy::RunAll), full, at(97));
        assert_eq!(runs(&plan).len(), 3);
    }

    #[test]
    fn no_slot_is_planned_after_the_clock_was_set_back() {
        let mut job = job(600, OverlapPolicy::Skip, MisfirePolicy::RunOnce);
        job.counted_from = at(3_600);
        let plan = plan(&job, OpenRuns::default(), at(0));
        assert_eq!((plan.slots.len(), plan.next_run_at), (0, Some(at(4_200))));
    }

    proptest! {
        #[test]
        fn every_slot_is_planned_once_and_the_next_is_later(
            interval in 1_i64..100_000,
            steps in prop::collection::vec(0_i64..400_000, 1..8),
            overlap in prop::sample::select(vec![
                OverlapPolicy::Skip, OverlapPolicy::BufferOne, OverlapPolicy::Allow, OverlapPolicy::CancelOther,
            ]),
            misfire in prop::sample::select(vec![MisfirePolicy::RunOnce, MisfirePolicy::Skip, MisfirePolicy::RunAll]),
            running in 0_usize..2,
        ) {
            let mut job = job(interval, overlap, misfire);
            let mut seen = std::collections::BTreeSet::new();
            let mut now = 0;
            for step in steps {
                now += step;
                let plan = plan(&job, OpenRuns { running, pending: 0 }, at(now));
                for slot in &plan.slots {
                    prop_assert!(seen.insert(slot.at), "{:?} twice", slot.at);
                    prop_assert!(slot.at <= at(now));
                }
                let planned = runs(&plan).len();
                prop_assert!(planned <= MAX_CAUGHT_UP);
                if overlap == OverlapPolicy::CancelOther && misfire != MisfirePolicy::RunAll {
                    prop_assert!(planned <= 1);
                }
                prop_assert!(plan.next_run_at > Some(at(now)));
                prop_assert!(plan.counted_from >= job.counted_from);
                job.counted_from = plan.counted_from;
                job.next_run_at = plan.next_run_at;
            }
        }
    }
}
