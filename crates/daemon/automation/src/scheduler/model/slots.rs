//! What becomes of the slots of a job that is due: which become runs, which are left out and why, and what is
//! done about a run that is still under way.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_schedule::{CatchUp, MisfirePolicy, catch_up};

use super::job::{Job, JobStatus, OverlapPolicy};
use super::run::{MAX_OPEN_RUNS, Run, RunCause, RunId, too_many_open_runs};

/// The newest slot is on time if it is found before it is this old; it runs whatever the misfire policy says.
/// Slots before it were missed.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// Runs that `run_all` makes up for at once, and of a job that wait in line for it.
pub(crate) const MOST_CAUGHT_UP: usize = 10;
/// Missed slots that stay visible as skipped runs, the newest ones.
const MOST_SHOWN: usize = 10;

/// What is under way of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Open {
    pub(crate) running: usize,
    pub(crate) pending: usize,
}

/// A slot, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedSlot {
    pub(crate) at: Timestamp,
    /// Why it gets no run; `None`: it gets one.
    pub(crate) skipped: Option<String>,
    pub(crate) may_overlap: bool,
}

impl PlannedSlot {
    /// The run of the slot; one that is left out is over at once.
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

/// What a tick does to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Oldest first.
    pub(crate) slots: Vec<PlannedSlot>,
    /// What is under way is to be stopped.
    pub(crate) replaces_open: bool,
    pub(crate) counted_from: Timestamp,
    pub(crate) next_run_at: Option<Timestamp>,
}

/// Decides about every slot up to `now`.
pub(crate) fn plan(job: &Job, open: Open, now: Timestamp) -> Plan {
    let nothing = Plan {
        slots: Vec::new(),
        replaces_open: false,
        counted_from: job.counted_from,
        next_run_at: job.next_run_at.filter(|_| job.status == JobStatus::Active),
    };
    if job.status != JobStatus::Active {
        return nothing;
    }
    let CatchUp { run, passed_over, next, .. } =
        catch_up(&job.schedule, job.counted_from, now, GRACE, job.misfire, MOST_CAUGHT_UP);
    let newest = run.last().copied().max(passed_over.last().copied());
    let is_catching_up = run.len() + passed_over.len() > 1 || newest.is_some_and(|at| now.since(at) >= GRACE);
    // What `run_all` makes up for waits in line, whatever the overlap policy says.
    let waits_in_line = is_catching_up && job.misfire == MisfirePolicy::RunAll;
    let hidden = passed_over.len().saturating_sub(MOST_SHOWN);
    let mut slots: Vec<PlannedSlot> = passed_over
        .into_iter()
        .skip(hidden)
        .map(|at| PlannedSlot { at, skipped: Some(missed_reason(job.misfire)), may_overlap: false })
        .collect();
    let mut replaces_open = false;
    let mut open = open;
    for at in run {
        let is_busy = open.running + open.pending > 0;
        let skipped = match job.overlap {
            // A daemon that is always late must not let the line grow.
            _ if waits_in_line && open.pending >= MOST_CAUGHT_UP => Some(missed_reason(job.misfire)),
            _ if waits_in_line || !is_busy => None,
            OverlapPolicy::Allow if open.running + open.pending >= MAX_OPEN_RUNS => Some(too_many_open_runs()),
            OverlapPolicy::Allow => None,
            OverlapPolicy::Skip => Some("the run before was still under way".to_owned()),
            OverlapPolicy::BufferOne if open.pending > 0 => {
                Some("another slot waits already for the end of the run before".to_owned())
            }
            OverlapPolicy::BufferOne => None,
            // Only `run_all` has several slots to run at once, and those wait in line.
            OverlapPolicy::CancelOther => {
                replaces_open = true;
                open = Open::default();
                None
            }
        };
        if skipped.is_none() {
            open.pending += 1;
        }
        let may_overlap = job.overlap == OverlapPolicy::Allow && !waits_in_line;
        slots.push(PlannedSlot { at, skipped, may_overlap });
    }
    slots.sort_by_key(|slot| slot.at);
    let counted_from = newest.unwrap_or(job.counted_from);
    Plan { slots, replaces_open, counted_from, next_run_at: next }
}

fn missed_reason(policy: MisfirePolicy) -> String {
    match policy {
        MisfirePolicy::RunOnce => "the slot was missed; of missed slots the newest alone counts".to_owned(),
        MisfirePolicy::Skip => "the slot was missed, and the job's misfire policy leaves missed slots out".to_owned(),
        MisfirePolicy::RunAll => {
            format!("the slot was missed; {MOST_CAUGHT_UP} missed slots at most are made up for")
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

    const BUSY: Open = Open { running: 1, pending: 0 };
    const FULL: Open = Open { running: 1, pending: 1 };

    #[test]
    fn a_slot_that_falls_into_a_run_follows_the_policy() {
        for (overlap, open, expected) in [
            (OverlapPolicy::Skip, Open::default(), 1),
            (OverlapPolicy::Skip, BUSY, 0),
            (OverlapPolicy::BufferOne, BUSY, 1),
            (OverlapPolicy::BufferOne, FULL, 0),
            (OverlapPolicy::Allow, FULL, 1),
            (OverlapPolicy::Allow, Open { running: 8, pending: MAX_OPEN_RUNS - 9 }, 1),
            (OverlapPolicy::Allow, Open { running: 8, pending: MAX_OPEN_RUNS - 8 }, 0),
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
    fn missed_slots_follow_the_policy() {
        let late = at(10 * 600 + 300);
        for (misfire, expected) in [
            (MisfirePolicy::RunOnce, vec![at(6_000)]),
            (MisfirePolicy::Skip, vec![]),
            (MisfirePolicy::RunAll, (1..=10).map(|slot| at(slot * 600)).collect()),
        ] {
            let plan = plan(&job(600, OverlapPolicy::Skip, misfire), Open::default(), late);
            assert_eq!(runs(&plan), expected, "{misfire:?}");
            assert_eq!(plan.slots.len(), 10, "{misfire:?}");
            assert_eq!(plan.next_run_at, Some(at(6_600)));
        }
    }

    #[test]
    fn slots_of_a_short_interval_are_missed_too() {
        let all = [OverlapPolicy::Skip, OverlapPolicy::BufferOne, OverlapPolicy::Allow, OverlapPolicy::CancelOther];
        for overlap in all {
            let newest = plan(&job(1, overlap, MisfirePolicy::RunOnce), Open::default(), at(12));
            assert_eq!(runs(&newest), [at(12)], "{overlap:?}");
            let reasons: Vec<_> = newest.slots.iter().filter_map(|slot| slot.skipped.as_deref()).collect();
            assert_eq!(reasons.len(), 10, "{overlap:?}");
            assert!(reasons.iter().all(|reason| reason.contains("missed")), "{reasons:?}");
            let skipped = plan(&job(5, overlap, MisfirePolicy::Skip), Open::default(), at(97));
            assert_eq!(runs(&skipped), [at(95)], "{overlap:?}");
            let each = plan(&job(5, overlap, MisfirePolicy::RunAll), BUSY, at(97));
            assert_eq!(runs(&each), (10..=19).map(|slot| at(slot * 5)).collect::<Vec<_>>(), "{overlap:?}");
            assert!(each.slots.iter().all(|slot| !slot.may_overlap), "one after the other: {overlap:?}");
            assert!(!each.replaces_open, "{overlap:?}");
        }
    }

    #[test]
    fn the_line_of_what_is_made_up_for_is_bounded() {
        let full = Open { running: 1, pending: 7 };
        let plan = plan(&job(5, OverlapPolicy::Skip, MisfirePolicy::RunAll), full, at(97));
        assert_eq!(runs(&plan).len(), 3);
    }

    #[test]
    fn a_clock_that_went_back_finds_nothing() {
        let mut job = job(600, OverlapPolicy::Skip, MisfirePolicy::RunOnce);
        job.counted_from = at(3_600);
        let plan = plan(&job, Open::default(), at(0));
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
                let plan = plan(&job, Open { running, pending: 0 }, at(now));
                for slot in &plan.slots {
                    prop_assert!(seen.insert(slot.at), "{:?} twice", slot.at);
                    prop_assert!(slot.at <= at(now));
                }
                let planned = runs(&plan).len();
                prop_assert!(planned <= MOST_CAUGHT_UP);
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
