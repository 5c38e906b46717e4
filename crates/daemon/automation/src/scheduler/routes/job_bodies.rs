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

/// Initial status of a job.
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
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Task for the agent.
    #[schema(min_length = 1, max_length = 20_000)]
    goal: String,
    /// Id or `svc_name` of the agent. Default: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Project that the usage of its runs is attributed to.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    project_id: Option<String>,
    schedule: ScheduleSpec,
    /// Initial status; default `active`.
    #[serde(default)]
    status: Option<NewJobStatus>,
    /// Destination of the output. By default it is only stored.
    #[serde(default)]
    delivery: Option<DeliveryRule>,
    /// Condition for starting a run. By default every run starts.
    #[serde(default)]
    condition: Option<JobCondition>,
    /// Retry rule. By default a failed attempt is not retried.
    #[serde(default)]
    retry: Option<RetryRule>,
    /// Handling of a slot that is due while a run of the job is open; default `skip`.
    #[serde(default)]
    overlap: Option<OverlapPolicy>,
    /// Handling of missed slots; default `run_once`.
    #[serde(default)]
    misfire: Option<MisfirePolicy>,
    /// Autonomy of the agent; default `autonomous`.
    #[serde(default)]
    execution_mode: Option<JobExecutionMode>,
    /// Time limit of one attempt, in seconds; default 3600.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400)]
    time_limit_seconds: Option<u32>,
    /// Model that overrides those of the agent and the settings.
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

/// Changes of a job. Omitted fields keep their value, including those inside `delivery` and `retry`. `null` removes
/// `project_id`, `delivery`, `condition`, `retry` and `model`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateJobBody {
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 20_000)]
    goal: Option<String>,
    /// Id or `svc_name` of the agent.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 64)]
    agent_id: Option<String>,
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
        // Omitted fields have valid stored values, so placeholders stand in for them.
        let placeholder = || Some("placeholder".to_owned());
        fields.name = fields.name.or_else(placeholder);
        fields.goal = fields.goal.or_else(placeholder);
        fields.schedule = fields.schedule.or_else(|| Some(ScheduleSpec::every(60)));
        scheduler.checked(AgentId::from("agent"), &fields).err().unwrap_or_default()
    }
}
