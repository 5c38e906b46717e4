//! Scheduler tools for agents: creating, listing and cancelling jobs. They are built-in tools that can be disabled
//! individually. An agent sees only its own jobs. A job created by an agent requires approval until the owner changes
//! its mode.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, Page};
use agentd_engine::agents::AgentId;
use agentd_engine::tools::{
    Author, BuiltinToolProvider, Effect, InputSchema, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput,
};
use agentd_schedule::{MIN_CONFIDENCE, ScheduleSpec, parse_natural};
use agentd_store::Recorder;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::SchedulerError;
use super::model::{Job, JobExecutionMode, JobFields, JobId};
use super::service::{CreateJob, ListJobs, Scheduler};

const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of active jobs created by one agent.
const MAX_JOBS_PER_AGENT: u64 = 100;
const MAX_LISTED_JOBS: u32 = 50;

/// The tools of the scheduler.
#[derive(Debug)]
pub struct SchedulerTools(Vec<Arc<dyn Tool>>);

impl SchedulerTools {
    #[must_use]
    pub fn new(scheduler: &Scheduler) -> Self {
        let tool = |action: &Action| -> Arc<dyn Tool> {
            Arc::new(SchedulerTool { description: action.describe(), action: *action, scheduler: scheduler.clone() })
        };
        Self(Action::ALL.iter().map(tool).collect())
    }
}

impl BuiltinToolProvider for SchedulerTools {
    fn tools(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        self.0.iter().map(|tool| (Arc::clone(tool), None)).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Create,
    List,
    Cancel,
}

impl Action {
    const ALL: [Self; 3] = [Self::Create, Self::List, Self::Cancel];

    fn describe(self) -> ToolDescription {
        let (name, description, effect, schema) = match self {
            Self::Create => (
                "schedule_create",
                "Plans work for yourself: at a time, or again and again. Say when either in plain words (`when`, such \
                 as \"every weekday at 9\" or \"tomorrow at 18:00\") or exactly (`schedule`).",
                Effect::Acts,
                json!({
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 200},
                        "goal": {"type": "string", "minLength": 1, "maxLength": 4000,
                            "description": "What is to be done then, in words that can be understood by themselves"},
                        "when": {"type": "string", "minLength": 1, "maxLength": 200},
                        "schedule": {
                            "type": "object",
                            "properties": {
                                "type": {"type": "string", "enum": ["cron", "every", "at"]},
                                "expression": {"type": "string", "description": "For cron: five fields"},
                                "timezone": {"type": "string", "description": "IANA name; cron needs it"},
                                "interval": {"type": "integer", "description": "For every: seconds"},
                                "datetime": {"type": "string", "description": "For at: RFC 3339"},
                            },
                            "required": ["type"],
                            "additionalProperties": false,
                        },
                    },
                    "required": ["name", "goal"],
                    "additionalProperties": false,
                }),
            ),
            Self::List => (
                "schedule_list",
                "Lists the work that is planned for you, the newest first, each with its id and when it is due.",
                Effect::Reads,
                json!({"type": "object", "properties": {}, "additionalProperties": false}),
            ),
            Self::Cancel => (
                "schedule_cancel",
                "Calls planned work of yours off for good. schedule_list shows the ids.",
                Effect::Acts,
                json!({
                    "type": "object",
                    "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 100}},
                    "required": ["id"],
                    "additionalProperties": false,
                }),
            ),
        };
        let input_schema = InputSchema::trusted(schema);
        ToolDescription {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
            effect,
            time_limit: CALL_TIMEOUT,
        }
    }
}

#[derive(Debug)]
struct SchedulerTool {
    description: ToolDescription,
    action: Action,
    scheduler: Scheduler,
}

#[derive(Deserialize)]
struct CreateInput {
    name: String,
    goal: String,
    when: Option<String>,
    schedule: Option<ScheduleSpec>,
}

#[derive(Deserialize)]
struct CancelInput {
    id: String,
}

fn parse<I: DeserializeOwned>(input: Map<String, Value>) -> Result<I, ToolError> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolError::Invalid(format!("the input is not valid: {error}")))
}

/// Converts an error to one that the model can act on.
fn tool_error(error: &SchedulerError) -> ToolError {
    match error.kind() {
        ErrorKind::Invalid(problems) => {
            let named: Vec<String> =
                problems.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
            ToolError::Invalid(named.join("; "))
        }
        ErrorKind::Internal => {
            tracing::warn!(cause = error as &dyn std::error::Error, "scheduler tool failed");
            ToolError::Failed(error.to_string())
        }
        _ => ToolError::Failed(error.to_string()),
    }
}

fn view(job: &Job, scheduler: &Scheduler) -> Value {
    json!({
        "id": job.id,
        "name": job.name,
        "goal": job.goal,
        "status": job.status,
        "schedule": scheduler.human_readable(&job.schedule),
        "next_run_at": job.next_run_at,
        "last_run_at": job.last_run_at,
    })
}

impl SchedulerTool {
    async fn run(&self, input: Map<String, Value>, context: ToolCallContext) -> Result<ToolOutput, ToolError> {
        let agent = &context.agent.id;
        match self.action {
            Action::Create => self.create(parse(input)?, agent).await,
            Action::List => self.list(agent).await,
            Action::Cancel => self.cancel(parse(input)?, agent).await,
        }
    }

    async fn create(&self, input: CreateInput, agent: &AgentId) -> Result<ToolOutput, ToolError> {
        let spec = match (input.schedule, input.when) {
            (Some(spec), _) => spec,
            (None, Some(when)) => self.parse_when(&when)?,
            (None, None) => return Err(ToolError::Invalid("`when` or `schedule` is required".to_owned())),
        };
        let fields = JobFields {
            name: Some(input.name),
            goal: Some(input.goal),
            schedule: Some(spec),
            execution_mode: Some(JobExecutionMode::ApprovalRequired),
            ..JobFields::default()
        };
        let wanted = CreateJob {
            agent: Some(agent.to_string()),
            fields,
            agent_job_limit: Some(MAX_JOBS_PER_AGENT),
            ..CreateJob::default()
        };
        let job = self.scheduler.create(wanted, Recorder::none()).await.map_err(|error| tool_error(&error))?;
        Ok(ToolOutput::json(view(&job, &self.scheduler)))
    }

    fn parse_when(&self, when: &str) -> Result<ScheduleSpec, ToolError> {
        let now = self.scheduler.context().clock.now();
        let parsed = parse_natural(when, now, &self.scheduler.zone(), self.scheduler.language());
        match parsed {
            Some(parsed) if parsed.confidence >= MIN_CONFIDENCE => Ok(parsed.schedule.spec()),
            _ => Err(ToolError::Invalid(format!(
                "`{when}` was not understood as a time; use a form such as \"every weekday at 9\", or set `schedule`"
            ))),
        }
    }

    async fn list(&self, agent: &AgentId) -> Result<ToolOutput, ToolError> {
        let page = Page { limit: MAX_LISTED_JOBS, offset: 0 };
        let listed = self.scheduler.list(ListJobs { agent: Some(agent.as_str()), ..ListJobs::default() }, page).await;
        let (jobs, total) = listed.map_err(|error| tool_error(&error))?;
        let views: Vec<Value> = jobs.iter().map(|job| view(job, &self.scheduler)).collect();
        Ok(ToolOutput::json(json!({"jobs": views, "total": total})))
    }

    async fn cancel(&self, input: CancelInput, agent: &AgentId) -> Result<ToolOutput, ToolError> {
        let deleted = self.scheduler.delete(&JobId::from(input.id), Some(agent)).await;
        deleted.map_err(|error| match error {
            SchedulerError::JobNotFound { .. } => {
                ToolError::Invalid("the agent has no job with this id; list its jobs with schedule_list".to_owned())
            }
            other => tool_error(&other),
        })?;
        Ok(ToolOutput::json(json!({"cancelled": true})))
    }
}

impl Tool for SchedulerTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Trusted
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.run(input, context).boxed()
    }
}
