//! Chains of jobs, as directed acyclic graphs: which steps are ready, and when a chain run is complete.
//!
//! A job is ready when all predecessors are settled and all its `on_success` and `on_complete` edges are satisfied. If
//! it has `on_failure` edges, at least one of them must be satisfied too. Edges from jobs that do not participate are
//! ignored. An unreachable job is settled, and satisfies none of its edges.
//!
//! At a join, edges from omitted jobs are ignored as long as another edge is satisfied. Omitted jobs were skipped, or
//! did not start because another branch was taken. A failure blocks the join unless the branch taken continues from
//! that same failure.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{Problems, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run::{RunId, RunStatus};
use super::{JobId, string_enum};

agentd_base::typed_id!(
    /// Id of a chain.
    ChainId,
    "chain"
);
agentd_base::typed_id!(
    /// Id of a chain run.
    ChainRunId,
    "crun"
);
agentd_store::stored_ids!(ChainId, ChainRunId);

pub(crate) const MAX_JOBS: usize = 50;
const MAX_EDGES: usize = 200;

string_enum!(
    /// Result that satisfies an edge: `on_success`, `on_failure` or `on_complete` (any result).
    ChainEdgeType {
        OnSuccess = "on_success",
        OnFailure = "on_failure",
        /// Satisfied by any result.
        OnComplete = "on_complete",
    }
);

string_enum!(
    /// Reason a chain run started: `manual` (the chain was triggered) or `job` (a run of a root job ended).
    ChainCause {
        /// The chain was triggered manually.
        Manual = "manual",
        /// A run of a root job ended.
        Job = "job",
    }
);

string_enum!(
    /// Status of a chain run: `running`, `success` or `failed` (a step failed, and no edge handled the failure).
    ChainRunStatus {
        Running = "running",
        Success = "success",
        /// A step failed, and no edge handled the failure.
        Failed = "failed",
    }
);

/// Dependency between two jobs of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainEdge {
    /// Id of the job that must end first.
    #[schema(value_type = String)]
    pub from: JobId,
    /// Id of the job that starts afterwards.
    #[schema(value_type = String)]
    pub to: JobId,
    /// Result of `from` that satisfies the edge.
    #[serde(rename = "type")]
    pub kind: ChainEdgeType,
}

/// A stored chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub id: ChainId,
    pub name: String,
    /// Jobs in the order of the request.
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
    /// Jobs that can no longer start.
    pub unreachable: Vec<JobId>,
}

/// Step of a chain run: the run of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainStep {
    pub job_id: JobId,
    pub run_id: RunId,
    pub status: RunStatus,
}

/// Next action for a chain run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Advance {
    /// Starts these jobs. Empty while the chain run waits for running steps.
    Start(Vec<JobId>),
    Finished(ChainRunStatus),
}

impl Chain {
    /// Returns the jobs without incoming edges.
    pub(crate) fn roots(&self) -> Vec<&JobId> {
        self.jobs.iter().filter(|job| self.edges.iter().all(|edge| edge.to != **job)).collect()
    }

    /// Validates the structure. The store checks that the jobs exist.
    pub(crate) fn check(&self, problems: &mut Problems) {
        let known: BTreeSet<&JobId> = self.jobs.iter().collect();
        problems.require(!self.name.trim().is_empty(), "name", "is required and must not be blank");
        problems.require(!self.jobs.is_empty(), "jobs", "must contain at least one job");
        problems.require(self.jobs.len() <= MAX_JOBS, "jobs", format!("must contain at most {MAX_JOBS} jobs"));
        problems.require(self.edges.len() <= MAX_EDGES, "edges", format!("must contain at most {MAX_EDGES} edges"));
        problems.require(known.len() == self.jobs.len(), "jobs", "must not contain a job twice");
        let mut pairs = BTreeSet::new();
        for (position, edge) in self.edges.iter().enumerate() {
            for (end, job) in [("from", &edge.from), ("to", &edge.to)] {
                if !known.contains(job) {
                    problems.add(format!("edges[{position}].{end}"), "is not one of the chain's jobs");
                }
            }
            if !pairs.insert((&edge.from, &edge.to)) {
                problems.add(format!("edges[{position}]"), "duplicates another edge between the same two jobs");
            }
        }
        if let Some(cycle) = self.find_cycle() {
            problems.add("edges", format!("must not contain a cycle; job {cycle} is part of one or follows one"));
        }
    }

    /// Returns a job that is part of a cycle, or reachable from one.
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

    /// Returns the chain without the given jobs, or `None` if it is empty then. Jobs reachable only through them are
    /// removed too, because they would otherwise become roots and start on their own.
    pub(crate) fn without(&self, removed: &[JobId]) -> Option<Self> {
        let roots: Vec<JobId> = self.roots().into_iter().cloned().collect();
        let mut left = self.clone();
        left.jobs.retain(|job| !removed.contains(job));
        // Each iteration removes at least one job or changes nothing, so the number of jobs bounds the iterations.
        for _ in 0..=self.jobs.len() {
            let jobs = left.jobs.clone();
            left.edges.retain(|edge| jobs.contains(&edge.from) && jobs.contains(&edge.to));
            let is_reachable_job = |job: &JobId| roots.contains(job) || left.edges.iter().any(|edge| edge.to == *job);
            left.jobs = jobs.into_iter().filter(is_reachable_job).collect();
        }
        (!left.jobs.is_empty()).then_some(left)
    }

    /// Decides what follows from the steps so far. Roots without a step do not participate.
    pub(crate) fn advance(&self, steps: &[ChainStep]) -> Advance {
        let runs = by_job(steps);
        let progress = self.job_progress(&runs);
        let begin: Vec<JobId> =
            self.jobs.iter().filter(|job| progress.get(job) == Some(&JobProgress::Ready)).cloned().collect();
        let is_running = progress.values().any(|progress| *progress == JobProgress::Running);
        if begin.is_empty() && !is_running {
            return Advance::Finished(self.final_status(&runs));
        }
        Advance::Start(begin)
    }

    /// Returns the jobs that can no longer start after the steps so far.
    pub(crate) fn unreachable_jobs(&self, steps: &[ChainStep]) -> Vec<JobId> {
        let progress = self.job_progress(&by_job(steps));
        self.jobs.iter().filter(|job| progress.get(job) == Some(&JobProgress::Unreachable)).cloned().collect()
    }

    /// Returns the progress of each job. Jobs without an entry wait for undecided predecessors.
    fn job_progress(&self, runs: &BTreeMap<&JobId, RunStatus>) -> BTreeMap<&JobId, JobProgress> {
        let mut progress: BTreeMap<&JobId, JobProgress> = BTreeMap::new();
        // Each iteration settles at least one more job, so the number of jobs bounds the iterations.
        for _ in 0..self.jobs.len() {
            for job in &self.jobs {
                if progress.contains_key(job) {
                    continue;
                }
                if let Some(status) = runs.get(job) {
                    let now = if status.is_over() { JobProgress::Ended(*status) } else { JobProgress::Running };
                    progress.insert(job, now);
                    continue;
                }
                let incoming: Vec<&ChainEdge> = self.edges.iter().filter(|edge| edge.to == *job).collect();
                if incoming.is_empty() {
                    progress.insert(job, JobProgress::NotParticipating);
                    continue;
                }
                let Some(sources) = incoming
                    .into_iter()
                    .map(|edge| progress.get(&edge.from).map(|progress| (edge, *progress)))
                    .collect::<Option<Vec<_>>>()
                else {
                    continue;
                };
                let decided = self.evaluate(&sources, runs);
                progress.insert(job, decided);
            }
        }
        progress
    }

    fn evaluate(&self, sources: &[(&ChainEdge, JobProgress)], runs: &BTreeMap<&JobId, RunStatus>) -> JobProgress {
        let taking_part: Vec<_> =
            sources.iter().copied().filter(|(_, progress)| *progress != JobProgress::NotParticipating).collect();
        if taking_part.is_empty() {
            return JobProgress::NotParticipating;
        }
        if taking_part
            .iter()
            .any(|(_, progress)| matches!(progress, JobProgress::Running | JobProgress::Ready | JobProgress::Waiting))
        {
            return JobProgress::Waiting;
        }
        let (taken, missed): (Vec<_>, Vec<_>) =
            taking_part.into_iter().partition(|(edge, progress)| is_satisfied(edge.kind, *progress));
        let is_failure_edge = |(edge, _): &(&ChainEdge, JobProgress)| edge.kind == ChainEdgeType::OnFailure;
        let has_satisfied_failure_edges = taken.iter().any(is_failure_edge) || !missed.iter().any(is_failure_edge);
        let is_omitted = |source: &(&ChainEdge, JobProgress)| match source.1 {
            JobProgress::Ended(status) => status == RunStatus::Skipped,
            JobProgress::Unreachable => self
                .failures_before(&source.0.from, runs)
                .into_iter()
                .all(|failed| taken.iter().any(|(edge, _)| self.is_reachable(failed, &edge.from))),
            _ => false,
        };
        let is_unblocked = missed.iter().all(|source| is_failure_edge(source) || is_omitted(source));
        if !taken.is_empty() && has_satisfied_failure_edges && is_unblocked {
            JobProgress::Ready
        } else {
            JobProgress::Unreachable
        }
    }

    /// Returns the jobs whose failure prevented the given job from starting.
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

    /// Whether `to` is reachable from `from`. Each job is reachable from itself.
    fn is_reachable(&self, from: &JobId, to: &JobId) -> bool {
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

    fn final_status(&self, runs: &BTreeMap<&JobId, RunStatus>) -> ChainRunStatus {
        let is_unhandled = |job: &JobId| {
            !self
                .edges
                .iter()
                .any(|edge| edge.from == *job && edge.kind != ChainEdgeType::OnSuccess && runs.contains_key(&edge.to))
        };
        let has_failed = runs.iter().any(|(job, status)| is_failure(*status) && is_unhandled(job));
        if has_failed { ChainRunStatus::Failed } else { ChainRunStatus::Success }
    }
}

/// Progress of a job in a chain run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobProgress {
    Ended(RunStatus),
    Running,
    Ready,
    /// A predecessor is not settled.
    Waiting,
    /// The job can no longer start.
    Unreachable,
    /// The job is a root without a step, or reachable only from such roots.
    NotParticipating,
}

fn is_failure(status: RunStatus) -> bool {
    matches!(status, RunStatus::Failed | RunStatus::Timeout | RunStatus::Cancelled)
}

fn by_job(steps: &[ChainStep]) -> BTreeMap<&JobId, RunStatus> {
    steps.iter().map(|step| (&step.job_id, step.status)).collect()
}

fn is_satisfied(kind: ChainEdgeType, progress: JobProgress) -> bool {
    match (kind, progress) {
        (ChainEdgeType::OnSuccess, JobProgress::Ended(status)) => status == RunStatus::Success,
        (ChainEdgeType::OnFailure, JobProgress::Ended(status)) => is_failure(status),
        (ChainEdgeType::OnComplete, JobProgress::Ended(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
