//! The scheduler: what agents do at a time, in an interval, after each other, without anybody asking.
//!
//! A job says what and when. Each time that it is due is a slot; a slot becomes a run; a run is carried out in
//! up to as many attempts as its job allows, each a turn of the engine that can be followed live.
//!
//! | run | by | next |
//! |---|---|---|
//! | – | a tick finds its slot; a trigger; a step of a chain | pending |
//! | – | a tick, where the overlap or misfire policy leaves the slot out | skipped |
//! | – | its job is resumed, and its only slot passed during the pause | skipped |
//! | pending | a daemon claims it | running |
//! | running | its condition is false | skipped |
//! | running | its turn came to an end | success |
//! | running | its attempt failed and another one is allowed | pending, later |
//! | running | its last attempt failed, or took too long | failed, timeout |
//! | pending | its slot waited, and its job was paused | cancelled |
//! | pending, running | cancelled, replaced by a later slot, or its job was deleted | cancelled |
//!
//! Invariants
//! - A slot of a job is one row, unique on (job, scheduled time). Handing slots out and moving the job on is one
//!   transaction, so however many daemons tick, and wherever one is killed, a slot gets one run.
//! - Nothing that decides is held in memory. A claim has an owner, a fence and an end; an attempt begins in the
//!   transaction that stores its session, which only succeeds while the claim stands; from then on the session's
//!   lease is the run's. Whoever is killed where, the run goes on with its next attempt.
//! - How an attempt ended, the run's next state, the delivery of its output, the events and the next steps of
//!   chains are one transaction with the end of the session.
//! - A slot is never handed out twice, also when the clock goes back: a job counts from its last slot.
//! - Runs of a job go one after the other, unless its overlap policy allows otherwise.
//! - A tick that finds nothing due is one step in an index.
//!
//! Late slots: the newest is on time if it is found up to a minute late. Of older ones, and of all that a later
//! slot follows, the misfire policy decides: `run_once` (one run for all of them, the newest's), `skip`, `run_all`
//! (the newest ten, one after the other). Those that get no run stay visible as skipped runs, the newest ten.
//!
//! A run that was cut off by the end of its daemon begins again up to three times in all, whatever its retry
//! rule says; what its tools did before stays done.
//!
//! Deliberately absent: when a schedule is due (`agentd-schedule`), what a condition may say
//! (`agentd-conditions`), how an output reaches somebody (`notify`).

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
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::TurnSink;
use agentd_engine::projects::NamesProjects;
use agentd_engine::tools::JoinsBuiltin;

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

/// Runs that wait for a permit at a provider are given back within this time.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

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
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn NamesProjects>(Arc::new(self.clone())),
                Binding::new::<dyn JoinsBuiltin>(Arc::new(SchedulerTools::new(self))),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Waiting, self, async |scheduler, _| {
                scheduler.drain(DRAIN_LIMIT).await
            })],
        }
    }
}

impl Scheduler {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_scheduler_jobs_active", "Jobs of the scheduler that wait for their next run.");
        metrics.read(family, self, async |scheduler| Ok(Sample::one(scheduler.count_active().await?)));
        let help = "Runs of jobs by how they ended here, since the daemon started.";
        metrics.read(Family::counter("svc_scheduler_runs_total", help).by(&["status"]), self, async |scheduler| {
            Ok(Sample::each(scheduler.counts().ended().into_iter().map(|(status, runs)| (status.as_str(), runs))))
        });
        let help = "How long after its slot the newest run was taken up here.";
        metrics.read(Family::gauge("svc_scheduler_lateness_seconds", help), self, async |scheduler| {
            Ok(Sample::seconds(scheduler.counts().lateness()))
        });
        metrics
    }
}
