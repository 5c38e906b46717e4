//! What a job is made from, and what of it changes.

use agentd_base::{FieldProblem, Patch};
use agentd_engine::agents::AgentId;
use agentd_schedule::{MisfirePolicy, ScheduleSpec};
use agentd_web::Validate;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::scheduler::model::{
    DeliveryChange, DeliveryRule, JobCondition, JobExecutionMode, JobFields, JobStatus, OverlapPolicy, RetryChange,
    RetryRule,
};
use crate::scheduler::service::{CreateJob, Scheduler, UpdateJob};

/// Fields of a schedule, which mean nothing without its type.
const OF_SCHEDULE_TYPE: &[(&str, &[&str])] = &[("schedule.type", &["schedule"])];

/// What a job is at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NewJobStatus {
    /// It is due from now on.
    Active,
    /// Nothing happens until it is resumed or triggered.
    Paused,
}

/// What a job is made from.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateJobBody {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// What the agent is to do.
    #[schema(min_length = 1, max_length = 20_000)]
    goal: String,
    /// Id or svc_name of the agent; left out: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// A project that it belongs to; what its runs use is counted for it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    project_id: Option<String>,
    schedule: ScheduleSpec,
    /// Default `active`.
    #[serde(default)]
    status: Option<NewJobStatus>,
    /// Where the output goes; left out: it is only kept.
    #[serde(default)]
    delivery: Option<DeliveryRule>,
    /// Left out: it always runs.
    #[serde(default)]
    condition: Option<JobCondition>,
    /// Left out: a failed attempt is the last.
    #[serde(default)]
    retry: Option<RetryRule>,
    /// What happens to a slot while the job still runs. Default `skip`.
    #[serde(default)]
    overlap: Option<OverlapPolicy>,
    /// What happens to slots that were missed. Default `run_once`.
    #[serde(default)]
    misfire: Option<MisfirePolicy>,
    /// Default `autonomous`.
    #[serde(default)]
    execution_mode: Option<JobExecutionMode>,
    /// Of one attempt. Default 3600.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400)]
    time_limit_seconds: Option<u32>,
    /// Goes before the agent's and the settings' model.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
}

fn patch<T>(value: Option<T>) -> Patch<T> {
    value.map_or(Patch::Keep, Patch::Set)
}

impl From<CreateJobBody> for CreateJob {
    fn from(body: CreateJobBody) -> Self {
        Self {
            agent: body.agent_id,
            project: body.project_id,
            is_paused: body.status == Some(NewJobStatus::Paused),
            fields: JobFields {
                name: Some(body.name),
                goal: Some(body.goal),
                schedule: Some(body.schedule),
                delivery: patch(body.delivery.map(DeliveryChange::from)),
                condition: patch(body.condition),
                retry: patch(body.retry.map(RetryChange::from)),
                overlap: body.overlap,
                misfire: body.misfire,
                execution_mode: body.execution_mode,
                time_limit_seconds: body.time_limit_seconds,
                model: patch(body.model),
            },
            most_of_agent: None,
        }
    }
}

impl Validate<Scheduler> for CreateJobBody {
    const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = OF_SCHEDULE_TYPE;

    async fn validate(self, scheduler: &Scheduler) -> Vec<FieldProblem> {
        let wanted = CreateJob::from(self);
        let mut problems = scheduler.agent_problems(&wanted).await;
        problems.extend(scheduler.checked(AgentId::from("agent"), &wanted.fields).err().unwrap_or_default());
        problems
    }
}

/// Any of the fields; those left out stay as they are, also those of `delivery` and `retry`, and `null` takes
/// `project_id`, `delivery`, `condition`, `retry` and `model` away.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateJobBody {
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 20_000)]
    goal: Option<String>,
    /// Id or svc_name of the agent.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    project_id: Patch<String>,
    /// As it is, for a job that is sent back whole; it changes with `…/pause` and `…/resume`.
    #[serde(default)]
    #[schema(value_type = JobStatus)]
    status: Option<JobStatus>,
    /// Counts from now on; a job that is over is active again with it.
    #[serde(default)]
    #[schema(value_type = ScheduleSpec)]
    schedule: Option<ScheduleSpec>,
    #[serde(default)]
    #[schema(value_type = Option<DeliveryChange>)]
    delivery: Patch<DeliveryChange>,
    #[serde(default)]
    #[schema(value_type = Option<JobCondition>)]
    condition: Patch<JobCondition>,
    #[serde(default)]
    #[schema(value_type = Option<RetryChange>)]
    retry: Patch<RetryChange>,
    #[serde(default)]
    #[schema(value_type = OverlapPolicy)]
    overlap: Option<OverlapPolicy>,
    #[serde(default)]
    #[schema(value_type = MisfirePolicy)]
    misfire: Option<MisfirePolicy>,
    #[serde(default)]
    #[schema(value_type = JobExecutionMode)]
    execution_mode: Option<JobExecutionMode>,
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 86_400)]
    time_limit_seconds: Option<u32>,
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    model: Patch<String>,
}

impl From<UpdateJobBody> for UpdateJob {
    fn from(body: UpdateJobBody) -> Self {
        Self {
            agent: body.agent_id,
            project: body.project_id,
            status: body.status,
            fields: JobFields {
                name: body.name,
                goal: body.goal,
                schedule: body.schedule,
                delivery: body.delivery,
                condition: body.condition,
                retry: body.retry,
                overlap: body.overlap,
                misfire: body.misfire,
                execution_mode: body.execution_mode,
                time_limit_seconds: body.time_limit_seconds,
                model: body.model,
            },
        }
    }
}

impl Validate<Scheduler> for UpdateJobBody {
    const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = OF_SCHEDULE_TYPE;

    async fn validate(self, scheduler: &Scheduler) -> Vec<FieldProblem> {
        let mut fields = UpdateJob::from(self).fields;
        // What a change leaves out is there already.
        let there = || Some("there".to_owned());
        fields.name = fields.name.or_else(there);
        fields.goal = fields.goal.or_else(there);
        fields.schedule = fields.schedule.or_else(|| Some(ScheduleSpec::every(60)));
        scheduler.checked(AgentId::from("agent"), &fields).err().unwrap_or_default()
    }
}
