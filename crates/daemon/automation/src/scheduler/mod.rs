//! Scheduler: runs agents at a given time, at an interval, or after other jobs, without user interaction.
//!
//! A job defines a goal and a schedule. Each due time is a slot, and each slot becomes a run. A run has one or more
//! attempts, up to the limit of its job. Each attempt is an engine turn that can be streamed live.
//!
//! | run | trigger | next |
//! |---|---|---|
//! | – | a tick finds the slot; a manual trigger; a chain step | pending |
//! | – | a tick, and the overlap or misfire policy skips the slot | skipped |
//! | – | the job is resumed after its only slot passed | skipped |
//! | pending | a daemon claims the run | running |
//! | running | the condition is false | skipped |
//! | running | the turn completed | success |
//! | running | the attempt failed, and attempts remain | pending, due later |
//! | running | the last attempt failed or timed out | failed, timeout |
//! | pending | the job was paused before the slot started | cancelled |
//! | pending, running | cancelled, replaced by a later slot, or the job was deleted | cancelled |
//!
//! Invariants
//! - A slot is one row, unique on (job, scheduled time). Creating runs and advancing the job share one transaction.
//!   With any number of daemons, and after a crash at any point, a slot gets exactly one run.
//! - No decision depends on memory. A claim has an owner, a fence and an expiry. An attempt starts in the transaction
//!   that stores its session, which succeeds only while the claim is valid. From then on, the session's lease protects
//!   the run. After a crash, the run continues with its next attempt.
//! - The transaction that ends the session also writes the outcome of the attempt and the next state of the run. The
//!   delivery of the output, the events and the next chain steps are part of it.
//! - A slot is never planned twice, even if the clock is set back, because a job counts from its last slot.
//! - Runs of a job are sequential unless its overlap policy permits concurrency.
//! - A tick without due jobs costs one index lookup.
//!
//! Late slots: the newest slot counts as on time if it is found within one minute. For older slots, and for slots
//! followed by a later one, the misfire policy applies: `run_once` (one run, for the newest), `skip`, or `run_all` (the
//! newest ten, sequentially). The newest ten slots without a run are recorded as skipped runs.
//!
//! A run interrupted by the end of its daemon is attempted up to three times in total, regardless of its retry rule.
//! Effects of tools from interrupted attempts are not undone.
//!
//! Out of scope: due times of schedules (`agentd-schedule`), the condition language (`agentd-conditions`), and the
//! delivery of outputs (`notify`).

mod activity;
mod error;
mod events;
mod execute;
mod maintenance;
mod message;
mod model;
mod restored;
mod routes;
mod service;
mod store;
mod tick;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, Sample};
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::TurnSink;
use agentd_engine::projects::ProjectReferences;
use agentd_engine::tools::BuiltinToolProvider;

use execute::StartRuns;
use maintenance::RunMaintenance;
use routes::routes;

pub use activity::{ACTIVITY_QUARTER_MICROS, Activity, ActivitySource};
pub use error::SchedulerError;
pub use model::{
    BaseDelay, Chain, ChainCause, ChainEdge, ChainEdgeType, ChainId, ChainRun, ChainRunId, ChainRunStatus, ChainStep,
    ConditionType, DeliveryChange, DeliveryRule, FailedRun, HourOfWeek, Job, JobCondition, JobExecutionMode, JobFields,
    JobId, JobStatus, OverlapPolicy, RetryChange, RetryRule, RetryStrategy, Run, RunCause, RunDelivery, RunId,
    RunStatus, StopReason, Suggestion,
};
pub use restored::ValidateJobs;
pub use service::{
    Calendar, CalendarEntry, CreateJob, Heatmap, JobStatistics, ListJobs, NewChain, ParseMethod, PlainSchedule,
    RunCounts, Scheduler, SchedulerStatus, Statistics, UpdateJob, Validation,
};
pub use tick::Tick;
pub use tools::SchedulerTools;

/// Maximum time for which a drain waits until runs that await a provider permit are released.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Domain for Scheduler {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(Tick(self.clone())),
                Box::new(StartRuns::new(self.clone())),
                Box::new(RunMaintenance::new(self.clone())),
            ],
            metrics: self.metrics(),
            bindings: vec![
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn ProjectReferences>(Arc::new(self.clone())),
                Binding::new::<dyn BuiltinToolProvider>(Arc::new(SchedulerTools::new(self))),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Queues, self, async |scheduler, _| {
                scheduler.drain(DRAIN_TIMEOUT).await
            })],
        }
    }
}

impl Scheduler {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_scheduler_jobs_active", "Active jobs of the scheduler.");
        metrics.read(family, self, async |scheduler| Ok(Sample::one(scheduler.count_active().await?)));
        let help = "Job runs that ended in this daemon, by status, since it started.";
        metrics.read(Family::counter("svc_scheduler_runs_total", help).by(&["status"]), self, async |scheduler| {
            Ok(Sample::each(scheduler.counts().ended().into_iter().map(|(status, runs)| (status.as_str(), runs))))
        });
        let help = "Delay between the slot and the start of the newest run in this daemon, in seconds.";
        metrics.read(Family::gauge("svc_scheduler_lateness_seconds", help), self, async |scheduler| {
            Ok(Sample::seconds(scheduler.counts().lateness()))
        });
        metrics
    }
}
