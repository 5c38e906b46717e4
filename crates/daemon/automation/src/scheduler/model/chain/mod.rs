//! Jobs that follow each other: which step of a chain may begin, and when the whole is over.
//!
//! The rule: a job of a chain begins when each job that an edge comes from has had its say, all its
//! `on_success` and `on_complete` edges hold, and, if it has `on_failure` edges, at least one of those holds.
//! Edges from jobs that take no part count as not there. What can no longer begin has had its say, too, and
//! none of its edges hold.
//!
//! Where branches join again, edges from what was left out count as not there, as long as another edge holds: from
//! jobs that were skipped, and from jobs that never began because another branch was taken. A failure keeps the
//! join from beginning unless the branch that was taken leads on from that very failure.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{Problems, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run::{RunId, RunStatus};
use super::{JobId, named};

agentd_base::typed_id!(
    /// The id of a chain.
    ChainId,
    "chain"
);
agentd_base::typed_id!(
    /// The id of a run of a chain.
    ChainRunId,
    "crun"
);
agentd_store::stored_ids!(ChainId, ChainRunId);

pub(crate) const MOST_JOBS: usize = 50;
const MOST_EDGES: usize = 200;

named!(ChainEdgeType {
    OnSuccess = "on_success",
    OnFailure = "on_failure",
    /// However it ended.
    OnComplete = "on_complete",
});

named!(ChainCause {
    /// Somebody triggered the chain.
    Manual = "manual",
    /// A root job's own run ended.
    Job = "job",
});

named!(ChainRunStatus {
    Running = "running",
    Success = "success",
    /// A step failed, and no edge was there to take care of that.
    Failed = "failed",
});

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainEdge {
    #[schema(value_type = String)]
    pub from: JobId,
    #[schema(value_type = String)]
    pub to: JobId,
    #[serde(rename = "type")]
    pub kind: ChainEdgeType,
}

/// A chain as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub id: ChainId,
    pub name: String,
    /// In the order in which they were given.
    pub jobs: Vec<JobId>,
    pub edges: Vec<ChainEdge>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRun {
    pub id: ChainRunId,
    pub chain_id: ChainId,
    pub cause: ChainCause,
    pub status: ChainRunStatus,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub steps: Vec<ChainStep>,
    /// Jobs that nothing leads to any more, as far as that is known.
    pub left_out: Vec<JobId>,
}

/// A job's part in a run of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainStep {
    pub job_id: JobId,
    pub run_id: RunId,
    pub status: RunStatus,
}

/// What is to be done about a run of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Advance {
    /// These begin; none may, while others are under way.
    Begin(Vec<JobId>),
    Over(ChainRunStatus),
}

impl Chain {
    /// Jobs that no edge leads to.
    pub(crate) fn roots(&self) -> Vec<&JobId> {
        self.jobs.iter().filter(|job| self.edges.iter().all(|edge| edge.to != **job)).collect()
    }

    /// Checks the shape; whether the jobs are there is for the store to say.
    pub(crate) fn check(&self, problems: &mut Problems) {
        let known: BTreeSet<&JobId> = self.jobs.iter().collect();
        problems.require(!self.name.trim().is_empty(), "name", "is required and must not be blank");
        problems.require(!self.jobs.is_empty(), "jobs", "names at least one job");
        problems.require(self.jobs.len() <= MOST_JOBS, "jobs", format!("has {MOST_JOBS} jobs at most"));
        problems.require(self.edges.len() <= MOST_EDGES, "edges", format!("has {MOST_EDGES} edges at most"));
        problems.require(known.len() == self.jobs.len(), "jobs", "names each job once");
        let mut pairs = BTreeSet::new();
        for (position, edge) in self.edges.iter().enumerate() {
            for (end, job) in [("from", &edge.from), ("to", &edge.to)] {
                if !known.contains(job) {
                    problems.add(format!("edges[{position}].{end}"), "is not one of the chain's jobs");
                }
            }
            if !pairs.insert((&edge.from, &edge.to)) {
                problems.add(format!("edges[{position}]"), "is there already between the same two jobs");
            }
        }
        if let Some(cycle) = self.find_cycle() {
            problems.add("edges", format!("run in a circle through {cycle}; a chain has to come to an end"));
        }
    }

    /// A job that leads back to itself.
    fn find_cycle(&self) -> Option<&JobId> {
        let mut left: BTreeSet<&JobId> = self.jobs.iter().collect();
        loop {
            let free: Vec<&JobId> = left
                .iter()
                .copied()
                .filter(|job| !self.edges.iter().any(|edge| edge.to == **job && left.contains(&edge.from)))
                .collect();
            if free.is_empty() {
                return left.first().copied();
            }
            for job in free {
                left.remove(job);
            }
            if left.is_empty() {
                return None;
            }
        }
    }

    /// The chain without these jobs; `None` when nothing is left. A job that only they led to goes with them: as a
    /// root it would begin unbidden.
    pub(crate) fn without(&self, gone: &[JobId]) -> Option<Self> {
        let roots: Vec<JobId> = self.roots().into_iter().cloned().collect();
        let mut left = self.clone();
        left.jobs.retain(|job| !gone.contains(job));
        // As many rounds as a chain is long: each takes at least one job out, or is the last.
        for _ in 0..=self.jobs.len() {
            let jobs = left.jobs.clone();
            left.edges.retain(|edge| jobs.contains(&edge.from) && jobs.contains(&edge.to));
            let is_led_to = |job: &JobId| roots.contains(job) || left.edges.iter().any(|edge| edge.to == *job);
            left.jobs = jobs.into_iter().filter(is_led_to).collect();
        }
        (!left.jobs.is_empty()).then_some(left)
    }

    /// What follows from the steps so far. Roots without a step take no part.
    pub(crate) fn advance(&self, steps: &[ChainStep]) -> Advance {
        let runs = by_job(steps);
        let progress = self.say(&runs);
        let begin: Vec<JobId> =
            self.jobs.iter().filter(|job| progress.get(job) == Some(&JobProgress::MayBegin)).cloned().collect();
        let is_under_way = progress.values().any(|progress| *progress == JobProgress::UnderWay);
        if begin.is_empty() && !is_under_way {
            return Advance::Over(self.verdict(&runs));
        }
        Advance::Begin(begin)
    }

    /// The jobs that can no longer begin after the steps so far.
    pub(crate) fn left_out(&self, steps: &[ChainStep]) -> Vec<JobId> {
        let progress = self.say(&by_job(steps));
        self.jobs.iter().filter(|job| progress.get(job) == Some(&JobProgress::Never)).cloned().collect()
    }

    /// How far each job is; those that are not there wait for others.
    fn say(&self, runs: &BTreeMap<&JobId, RunStatus>) -> BTreeMap<&JobId, JobProgress> {
        let mut progress: BTreeMap<&JobId, JobProgress> = BTreeMap::new();
        // As many rounds as a chain is long: each settles at least one more job.
        for _ in 0..self.jobs.len() {
            for job in &self.jobs {
                if progress.contains_key(job) {
                    continue;
                }
                if let Some(status) = runs.get(job) {
                    let now = if status.is_over() { JobProgress::Ended(*status) } else { JobProgress::UnderWay };
                    progress.insert(job, now);
                    continue;
                }
                let incoming: Vec<&ChainEdge> = self.edges.iter().filter(|edge| edge.to == *job).collect();
                if incoming.is_empty() {
                    progress.insert(job, JobProgress::NoPart);
                    continue;
                }
                let Some(sources) = incoming
                    .into_iter()
                    .map(|edge| progress.get(&edge.from).map(|progress| (edge, *progress)))
                    .collect::<Option<Vec<_>>>()
                else {
                    continue;
                };
                let verdict = self.evaluate(&sources, runs);
                progress.insert(job, verdict);
            }
        }
        progress
    }

    fn evaluate(&self, sources: &[(&ChainEdge, JobProgress)], runs: &BTreeMap<&JobId, RunStatus>) -> JobProgress {
        let taking_part: Vec<_> =
            sources.iter().copied().filter(|(_, progress)| *progress != JobProgress::NoPart).collect();
        if taking_part.is_empty() {
            return JobProgress::NoPart;
        }
        if taking_part
            .iter()
            .any(|(_, progress)| matches!(progress, JobProgress::UnderWay | JobProgress::MayBegin | JobProgress::Waits))
        {
            return JobProgress::Waits;
        }
        let (taken, missed): (Vec<_>, Vec<_>) =
            taking_part.into_iter().partition(|(edge, progress)| holds(edge.kind, *progress));
        let of_failure = |(edge, _): &(&ChainEdge, JobProgress)| edge.kind == ChainEdgeType::OnFailure;
        let is_called_for = taken.iter().any(of_failure) || !missed.iter().any(of_failure);
        let is_passed_over = |source: &(&ChainEdge, JobProgress)| match source.1 {
            JobProgress::Ended(status) => status == RunStatus::Skipped,
            JobProgress::Never => self
                .failures_before(&source.0.from, runs)
                .into_iter()
                .all(|failed| taken.iter().any(|(edge, _)| self.leads(failed, &edge.from))),
            _ => false,
        };
        let is_free = missed.iter().all(|source| of_failure(source) || is_passed_over(source));
        if !taken.is_empty() && is_called_for && is_free { JobProgress::MayBegin } else { JobProgress::Never }
    }

    /// The jobs whose failure kept this one, which never began, from beginning.
    fn failures_before<'c>(&'c self, job: &'c JobId, runs: &BTreeMap<&JobId, RunStatus>) -> BTreeSet<&'c JobId> {
        let (mut failures, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![job]);
        while let Some(job) = open.pop() {
            if !seen.insert(job) {
                continue;
            }
            for edge in self.edges.iter().filter(|edge| edge.to == *job) {
                match runs.get(&edge.from) {
                    Some(status) if edge.kind == ChainEdgeType::OnSuccess && is_failure(*status) => {
                        failures.insert(&edge.from);
                    }
                    Some(_) => {}
                    None => open.push(&edge.from),
                }
            }
        }
        failures
    }

    /// Whether there is a way along the edges, or both are the same.
    fn leads(&self, from: &JobId, to: &JobId) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(job) = open.pop() {
            if job == to {
                return true;
            }
            if seen.insert(job) {
                open.extend(self.edges.iter().filter(|edge| edge.from == *job).map(|edge| &edge.to));
            }
        }
        false
    }

    fn verdict(&self, runs: &BTreeMap<&JobId, RunStatus>) -> ChainRunStatus {
        let is_unattended = |job: &JobId| {
            !self
                .edges
                .iter()
                .any(|edge| edge.from == *job && edge.kind != ChainEdgeType::OnSuccess && runs.contains_key(&edge.to))
        };
        let has_failed = runs.iter().any(|(job, status)| is_failure(*status) && is_unattended(job));
        if has_failed { ChainRunStatus::Failed } else { ChainRunStatus::Success }
    }
}

/// How far a job of a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobProgress {
    Ended(RunStatus),
    UnderWay,
    MayBegin,
    /// Something that it waits for is not over.
    Waits,
    /// It can no longer begin.
    Never,
    NoPart,
}

fn is_failure(status: RunStatus) -> bool {
    matches!(status, RunStatus::Failed | RunStatus::Timeout | RunStatus::Cancelled)
}

fn by_job(steps: &[ChainStep]) -> BTreeMap<&JobId, RunStatus> {
    steps.iter().map(|step| (&step.job_id, step.status)).collect()
}

fn holds(kind: ChainEdgeType, progress: JobProgress) -> bool {
    match (kind, progress) {
        (ChainEdgeType::OnSuccess, JobProgress::Ended(status)) => status == RunStatus::Success,
        (ChainEdgeType::OnFailure, JobProgress::Ended(status)) => is_failure(status),
        (ChainEdgeType::OnComplete, JobProgress::Ended(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
