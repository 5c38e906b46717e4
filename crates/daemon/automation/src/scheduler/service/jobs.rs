//! Creating, changing, pausing and deleting jobs.

use std::sync::atomic::Ordering;

use agentd_base::{DomainError, ErrorKind, FieldProblem, Page, Patch, Problems, Timestamp};
use agentd_core::vault::{UrlSecrets, write_url_secrets};
use agentd_engine::agents::{AgentDataOwner, AgentError, AgentId};
use agentd_engine::engine::EngineError;
use agentd_engine::projects::{ProjectId, ProjectReferences};
use agentd_net::Trust;
use agentd_schedule::{Schedule, ScheduleSpec};
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::Scheduler;
use crate::notify::Target;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::events;
use crate::scheduler::model::slots::PlannedSlot;
use crate::scheduler::model::{DeliveryRule, Job, JobFields, JobId, JobStatus, Run, RunId, RunStatus, StopReason};
use crate::scheduler::store::jobs::JobFilter;
use crate::scheduler::store::{chains, jobs, runs};

/// Maximum number of jobs.
const MAX_JOBS: u64 = 200_000;

/// Definition of a new job.
#[derive(Debug, Clone, Default)]
pub struct CreateJob {
    /// Id or `svc_name`. `None` selects the default agent.
    pub agent: Option<String>,
    pub project: Option<String>,
    /// Whether the job is created paused.
    pub is_paused: bool,
    pub fields: JobFields,
    /// Maximum number of active jobs created by the agent itself. Set if an agent creates the job.
    pub agent_job_limit: Option<u64>,
}

/// Changes to a job.
#[derive(Debug, Clone, Default)]
pub struct UpdateJob {
    /// Id or `svc_name`.
    pub agent: Option<String>,
    pub project: Patch<String>,
    /// Must equal the current status.
    pub status: Option<JobStatus>,
    pub fields: JobFields,
}

/// Filter of a job list.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListJobs<'a> {
    pub status: Option<JobStatus>,
    /// Only jobs whose last run failed or timed out.
    pub is_failing: bool,
    /// Id or `svc_name`.
    pub agent: Option<&'a str>,
    pub project: Option<&'a str>,
}

impl Scheduler {
    /// Creates a job. Its schedule starts now unless the job is created paused.
    ///
    /// # Errors
    /// `Invalid` with every invalid field, an unknown agent or project, too many jobs, or a store error.
    pub async fn create(&self, wanted: CreateJob, recorder: Recorder<Job>) -> Result<Job, SchedulerError> {
        let agent = match &wanted.agent {
            Some(name) => self.0.agents.get(name).await?,
            None => match self.0.agents.default_agent().await {
                Ok(agent) => agent,
                Err(error) => return Err(self.with_other_problems(error, &wanted.fields)),
            },
        };
        if self.0.known_jobs.load(Ordering::Relaxed) >= MAX_JOBS {
            return Err(SchedulerError::TooManyJobs { limit: MAX_JOBS });
        }
        let (job, url) = self.checked(agent.id.clone(), &wanted.fields).map_err(SchedulerError::Invalid)?;
        let (agents, projects) = (self.0.agents.clone(), self.0.projects.clone());
        let vault = self.0.settings.vault().clone();
        let work = async move |tx: &mut Tx| {
            let mut job = job.clone();
            if !agents.is_alive(tx, &job.agent_id).await? {
                return Err(EngineError::AgentGone.into());
            }
            if let Some(limit) = wanted.agent_job_limit {
                if jobs::count_made_by(tx, &job.agent_id).await? >= limit {
                    return Err(SchedulerError::TooManyOfAgent { limit });
                }
                job.made_by_agent = true;
            }
            if wanted.is_paused {
                job.status = JobStatus::Paused;
                job.next_run_at = None;
            }
            if let Some(project) = &wanted.project {
                job.project_id = Some(projects.get_in(tx, project).await?.id);
            }
            jobs::insert_job(tx, &job).await?;
            write_url_secrets(tx, &vault, &jobs::secret_scope(&job.id), &url).await?;
            recorder.record(tx, &job).await?;
            Ok(job)
        };
        let job = self.0.context.db.write(work).await?;
        self.0.tick_wake.notify_one();
        Ok(job)
    }

    /// Combines the missing default agent with all other invalid fields.
    fn with_other_problems(&self, error: AgentError, fields: &JobFields) -> SchedulerError {
        match (error.kind(), self.checked(AgentId::from("agent"), fields)) {
            (ErrorKind::Invalid(mut problems), Err(others)) => {
                problems.extend(others);
                SchedulerError::Invalid(problems)
            }
            _ => error.into(),
        }
    }

    /// Returns the problems of a job that names no agent while there is no default agent.
    pub(crate) async fn agent_problems(&self, wanted: &CreateJob) -> Vec<FieldProblem> {
        if wanted.agent.is_some() {
            return Vec::new();
        }
        match self.0.agents.default_agent().await.map_err(|error| error.kind()) {
            Err(ErrorKind::Invalid(problems)) => problems,
            _ => Vec::new(),
        }
    }

    /// Validates the fields and builds a new job.
    ///
    /// # Errors
    /// All invalid fields.
    pub(crate) fn checked(&self, agent: AgentId, fields: &JobFields) -> Result<(Job, UrlSecrets), Vec<FieldProblem>> {
        let now = self.0.context.clock.now();
        let mut problems = Problems::new();
        let schedule = match &fields.schedule {
            Some(spec) => self.read_schedule(spec, now, &mut problems),
            None => {
                problems.add("schedule", "is required");
                None
            }
        };
        let id = JobId::generate(&self.0.context.ids);
        // A placeholder schedule lets the other fields be validated, so that all invalid fields are reported together.
        let placeholder = schedule.clone().map_or_else(|| ScheduleSpec::every(1).check(&self.zone()), Ok)?;
        let mut job = Job::blank(id, agent, placeholder, now);
        let url = job.apply(fields, &mut problems);
        self.check_address(&job, None, &mut problems);
        if schedule.is_some() && !job.count_from(now) {
            problems.add("schedule", "has no future run time");
        }
        problems.into_result().map(|()| (job, url))
    }

    /// Rejects an address that is known to be unreachable without a network request. An unchanged address is accepted,
    /// because the permissions may have changed since it was saved.
    fn check_address(&self, job: &Job, before: Option<&DeliveryRule>, problems: &mut Problems) {
        let before = before.map(|rule| &rule.channel);
        let Some(rule) = job.delivery.as_ref().filter(|rule| Some(&rule.channel) != before) else { return };
        let Ok(target) = rule.channel.parse::<Target>() else { return };
        let fault = match &target {
            Target::Webhook(url) => {
                let evaluated = self.0.settings.policy().current().check_url(url, Trust::Owner);
                evaluated.err().map(|refusal| refusal.to_string())
            }
            // Faults of the target itself are already reported.
            _ => self.0.notify.target_problem(&target).filter(|_| target.fault().is_none()),
        };
        if let Some(fault) = fault {
            problems.add("delivery.channel", fault);
        }
    }

    /// Parses a schedule and adds its faults to `problems`.
    fn read_schedule(&self, spec: &ScheduleSpec, now: Timestamp, problems: &mut Problems) -> Option<Schedule> {
        let schedule = match spec.check(&self.zone()) {
            Ok(schedule) => schedule,
            Err(found) => {
                for FieldProblem { field, message } in found {
                    problems.add(format!("schedule.{field}"), message);
                }
                return None;
            }
        };
        if let Schedule::At(at) = &schedule
            && at.instant() <= now
        {
            problems.add("schedule.datetime", format!("must not be in the past; the current time is {now}"));
            return None;
        }
        Some(schedule)
    }

    /// Changes a job. A new schedule counts from now, and reactivates a job that had ended.
    ///
    /// # Errors
    /// `Invalid`, `JobNotFound`, an unknown agent or project, or a store error.
    pub async fn update(&self, id: &JobId, wanted: UpdateJob) -> Result<Job, SchedulerError> {
        let agent = match &wanted.agent {
            Some(name) => Some(self.0.agents.get(name).await?.id.clone()),
            None => None,
        };
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let mut job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
            let now = tx.clock().now();
            let mut problems = Problems::new();
            problems.require(
                wanted.status.is_none_or(|status| status == job.status),
                "status",
                "cannot be changed here; use POST /api/scheduler/jobs/{id}/pause and /resume",
            );
            if let Some(agent) = &agent {
                job.agent_id.clone_from(agent);
            }
            // An unchanged schedule is accepted even if its date has passed.
            let is_same = |spec: &ScheduleSpec| spec.check(&scheduler.zone()).is_ok_and(|same| same == job.schedule);
            if let Some(spec) = wanted.fields.schedule.as_ref().filter(|spec| !is_same(spec))
                && let Some(schedule) = scheduler.read_schedule(spec, now, &mut problems)
            {
                job.schedule = schedule;
                if matches!(job.status, JobStatus::Completed | JobStatus::Failed) {
                    job.status = JobStatus::Active;
                }
                if job.status == JobStatus::Active && !job.count_from(now) {
                    problems.add("schedule", "has no future run time");
                }
            }
            if job.status == JobStatus::Active && job.counted_from > now {
                // The clock was ahead; without a restart the job would wait until that time is reached again.
                job.count_from(now);
            }
            let delivery_before = job.delivery.clone();
            let url = job.apply(&wanted.fields, &mut problems);
            scheduler.check_address(&job, delivery_before.as_ref(), &mut problems);
            problems.into_result().map_err(SchedulerError::Invalid)?;
            match &wanted.project {
                Patch::Keep => {}
                Patch::Clear => job.project_id = None,
                Patch::Set(project) => job.project_id = Some(scheduler.0.projects.get_in(tx, project).await?.id),
            }
            job.updated_at = now;
            jobs::update_job(tx, &job).await?;
            let vault = scheduler.0.settings.vault();
            write_url_secrets(tx, vault, &jobs::secret_scope(&job.id), &url).await?;
            Ok::<_, SchedulerError>(job)
        };
        let job = self.0.context.db.write(work).await?;
        self.0.tick_wake.notify_one();
        Ok(job)
    }

    /// Returns a job.
    ///
    /// # Errors
    /// `JobNotFound`, or a store error.
    pub async fn get(&self, id: &JobId) -> Result<Job, SchedulerError> {
        let found = jobs::find_job(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))
    }

    /// Returns a page of jobs, newest first, and the total number of matches.
    ///
    /// # Errors
    /// An unknown agent or project, or a store error.
    pub async fn list(&self, query: ListJobs<'_>, page: Page) -> Result<(Vec<Job>, u64), SchedulerError> {
        let mut filter = JobFilter { status: query.status, is_failing: query.is_failing, ..JobFilter::default() };
        if let Some(name) = query.agent {
            filter.agent = Some(self.0.agents.get(name).await?.id.clone());
        }
        let mut read = self.0.context.db.read_snapshot().await?;
        if let Some(id) = query.project {
            filter.project = Some(self.0.projects.get_in(&mut read, id).await?.id);
        }
        Ok(jobs::list_jobs(&mut read, &filter, page).await?)
    }

    /// Pauses a job: the schedule starts no runs until the job is resumed.
    ///
    /// # Errors
    /// `JobNotFound`, `WrongState`, or a store error.
    pub async fn pause(&self, id: &JobId, recorder: Recorder<Job>) -> Result<Job, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let mut job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
            if job.status != JobStatus::Active {
                return Err(SchedulerError::WrongState { status: job.status, action: "paused" });
            }
            // Waiting slots have not started and are cancelled. This precedes the update, because ending a run may
            // close the job.
            let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
            let waiting: Vec<Run> = open.into_iter().filter(Run::is_waiting_slot).collect();
            scheduler.stop_open(tx, &waiting, StopReason::Paused).await?;
            job.status = JobStatus::Paused;
            job.next_run_at = None;
            job.updated_at = tx.clock().now();
            jobs::update_job(tx, &job).await?;
            recorder.record(tx, &job).await?;
            Ok(job)
        };
        self.0.context.db.write(work).await
    }

    /// Resumes a job from now; slots missed during the pause are not caught up. A one-time job whose date has passed is
    /// completed, and a skipped run records its slot.
    ///
    /// # Errors
    /// `JobNotFound`, `WrongState`, `NeverDue`, or a store error.
    pub async fn resume(&self, id: &JobId, recorder: Recorder<Job>) -> Result<Job, SchedulerError> {
        let (scheduler, id) = (self.clone(), id.clone());
        let work = async move |tx: &mut Tx| {
            let mut job = jobs::find_job(tx, &id).await?.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
            if job.status != JobStatus::Paused {
                return Err(SchedulerError::WrongState { status: job.status, action: "resumed" });
            }
            let now = tx.clock().now();
            job.status = JobStatus::Active;
            if !job.count_from(now) {
                let slot = job.schedule.only_slot().ok_or(SchedulerError::NeverDue)?;
                job.status = scheduler.skip_only_slot(tx, &job, slot, now).await?;
            }
            job.updated_at = now;
            jobs::update_job(tx, &job).await?;
            recorder.record(tx, &job).await?;
            Ok(job)
        };
        let job = self.0.context.db.write(work).await?;
        self.0.tick_wake.notify_one();
        Ok(job)
    }

    /// Skips the only slot of a job, which passed during its pause. Returns the resulting status of the job.
    async fn skip_only_slot(
        &self,
        tx: &mut Tx,
        job: &Job,
        slot: Timestamp,
        now: Timestamp,
    ) -> Result<JobStatus, StoreError> {
        let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
        if open.iter().any(|run| run.scheduled_for == Some(slot)) {
            // The slot started before the pause; the job is closed when its run ends.
            return Ok(JobStatus::Active);
        }
        let reason = "the slot passed while the job was paused";
        let planned = PlannedSlot { at: slot, skipped: Some(reason.to_owned()), may_overlap: false };
        let run = planned.new_run(job, RunId::generate(tx.ids()), now);
        // A run cancelled by the pause already represents the slot.
        if !runs::insert_runs(tx, std::slice::from_ref(&run)).await?.is_empty() {
            self.0.counts.count(RunStatus::Skipped);
            tx.emit(events::skipped(&run, reason)).await?;
        }
        Ok(JobStatus::Completed)
    }

    /// Deletes a job and stops its open runs. With `owner`, only a job of that agent is found.
    ///
    /// # Errors
    /// `JobNotFound`, `InChain`, or a store error.
    pub async fn delete(&self, id: &JobId, owner: Option<&AgentId>) -> Result<(), SchedulerError> {
        let (scheduler, id, owner) = (self.clone(), id.clone(), owner.cloned());
        let work = async move |tx: &mut Tx| {
            let job =
                jobs::find_job(tx, &id).await?.filter(|job| owner.as_ref().is_none_or(|own| *own == job.agent_id));
            let job = job.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
            if let Some(chain) = chains::list_chains_of_job(tx, &job.id, false).await?.into_iter().next() {
                return Err(SchedulerError::InChain { chain: chain.name });
            }
            let now = tx.clock().now();
            jobs::mark_deleted(tx, &job.id, now).await?;
            let open = runs::list_open(tx, std::slice::from_ref(&job.id)).await?;
            scheduler.stop_open(tx, &open, StopReason::Cancel).await?;
            Ok::<_, SchedulerError>(open)
        };
        let open = self.0.context.db.write(work).await?;
        for session in open.iter().filter_map(|run| run.session_id.as_ref()) {
            self.0.engine.await_cancelled(session).await;
        }
        Ok(())
    }
}

impl AgentDataOwner for Scheduler {
    fn name(&self) -> &'static str {
        "jobs"
    }

    /// Soft-deletes the jobs of an agent and stops their open runs. The engine cancels the turns.
    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            chains::remove_agent_jobs(tx, agent).await?;
            let open = runs::list_open_of_agent(tx, agent).await?;
            let now = tx.clock().now();
            jobs::mark_deleted_of_agent(tx, agent, now).await?;
            self.stop_open(tx, &open, StopReason::Cancel).await
        })
    }

    fn after_hide<'t>(&'t self, _agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(std::future::ready(()))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        _agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(jobs::purge_deleted(tx, limit).await? >= u64::from(limit)) })
    }
}

impl ProjectReferences for Scheduler {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn release<'t>(
        &'t self,
        tx: &'t mut Tx,
        project: &'t ProjectId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(jobs::release_project(tx, project, limit).await? > 0) })
    }
}
