//! Request bodies for jobs.

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

/// Fields of a schedule that cannot be validated without its type.
const OF_SCHEDULE_TYPE: &[(&str, &[&str])] = &[("schedule.type", &["schedule"])];

/// Initial status of a job: `active` (the schedule starts immediately) or `paused` (the job does not run until it is
/// resumed or triggered).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NewJobStatus {
    /// The schedule starts immediately.
    Active,
    /// The job does not run until it is resumed or triggered.
    Paused,
}

/// Definition of a new job.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateJobBody {
    /// Display name, 1 to 200 characters after trimming.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Task for the agent, 1 to 20,000 characters after trimming.
    #[schema(min_length = 1, max_length = 20_000)]
    goal: String,
    /// Id or `svc_name` of the agent. Default: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Project that the usage of its runs is attributed to. Default: none.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    project_id: Option<String>,
    /// Schedule, counted from now.
    schedule: ScheduleSpec,
    /// Initial status. Default: `active`.
    #[serde(default)]
    status: Option<NewJobStatus>,
    /// Destination of the output. Default: none; the output is only stored.
    #[serde(default)]
    delivery: Option<DeliveryRule>,
    /// Condition for starting a run. Default: none; every run starts.
    #[serde(default)]
    condition: Option<JobCondition>,
    /// Retry rule. Default: none; a failed attempt is not retried.
    #[serde(default)]
    retry: Option<RetryRule>,
    /// Handling of a slot that is due while a run of the job is open. Default: `skip`.
    #[serde(default)]
    overlap: Option<OverlapPolicy>,
    /// Handling of slots missed while no daemon was running. Default: `run_once`.
    #[serde(default)]
    misfire: Option<MisfirePolicy>,
    /// Autonomy of the agent in a run. Default: `autonomous`.
    #[serde(default)]
    execution_mode: Option<JobExecutionMode>,
    /// Time limit of one attempt in seconds, 1 to 86,400, excluding time spent waiting for approval. Default: 3,600.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400)]
    time_limit_seconds: Option<u32>,
    /// Model that overrides those of the agent and the settings, 1 to 200 characters. Default: none.
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
            agent_job_limit: None,
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

/// Changes to a job. Omitted fields keep their value, including those inside `delivery` and `retry`. `null` removes
/// `project_id`, `delivery`, `condition`, `retry` and `model`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateJobBody {
    /// Display name, 1 to 200 characters after trimming.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Task for the agent, 1 to 20,000 characters after trimming.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 20_000)]
    goal: Option<String>,
    /// Id or `svc_name` of the agent.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Project that the usage of its runs is attributed to; null for none.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    project_id: Patch<String>,
    /// Must equal the current status, which only `…/pause` and `…/resume` change.
    #[serde(default)]
    #[schema(value_type = JobStatus)]
    status: Option<JobStatus>,
    /// New schedule, counted from now. Reactivates a job that has ended.
    #[serde(default)]
    #[schema(value_type = ScheduleSpec)]
    schedule: Option<ScheduleSpec>,
    /// Changes to the destination of the output; null to only store the output.
    #[serde(default)]
    #[schema(value_type = Option<DeliveryChange>)]
    delivery: Patch<DeliveryChange>,
    /// Condition for starting a run; null to start every run.
    #[serde(default)]
    #[schema(value_type = Option<JobCondition>)]
    condition: Patch<JobCondition>,
    /// Changes to the retry rule; null to not retry failed attempts.
    #[serde(default)]
    #[schema(value_type = Option<RetryChange>)]
    retry: Patch<RetryChange>,
    /// Handling of a slot that is due while a run of the job is open.
    #[serde(default)]
    #[schema(value_type = OverlapPolicy)]
    overlap: Option<OverlapPolicy>,
    /// Handling of slots missed while no daemon was running.
    #[serde(default)]
    #[schema(value_type = MisfirePolicy)]
    misfire: Option<MisfirePolicy>,
    /// Autonomy of the agent in a run.
    #[serde(default)]
    #[schema(value_type = JobExecutionMode)]
    execution_mode: Option<JobExecutionMode>,
    /// Time limit of one attempt in seconds, 1 to 86,400, excluding time spent waiting for approval.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 86_400)]
    time_limit_seconds: Option<u32>,
    /// Model that overrides those of the agent and the settings, 1 to 200 characters; null for none.
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
        // Omitted fields have valid stored values, so placeholders stand in for them.
        let placeholder = || Some("placeholder".to_owned());
        fields.name = fields.name.or_else(placeholder);
        fields.goal = fields.goal.or_else(placeholder);
        fields.schedule = fields.schedule.or_else(|| Some(ScheduleSpec::every(60)));
        scheduler.checked(AgentId::from("agent"), &fields).err().unwrap_or_default()
    }
}
