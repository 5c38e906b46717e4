//! A job: what an agent is to do, and when.

use agentd_base::{Patch, Problems, Timestamp};
use agentd_core::vault::{SealedUrl, UnknownMask, UrlSecrets};
use agentd_engine::agents::AgentId;
use agentd_engine::engine::ToolUse;
use agentd_engine::projects::ProjectId;
use agentd_schedule::{MisfirePolicy, Schedule, ScheduleSpec, Zone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::retry::{RetryChange, RetryRule};
use super::run::RunStatus;
use super::{condition, named};
use crate::notify::{MessageFormat, Target};

agentd_base::typed_id!(
    /// The id of a job.
    JobId,
    "job"
);
agentd_store::stored_ids!(JobId);

pub(crate) const DEFAULT_TIME_LIMIT_SECONDS: u32 = 3_600;
const LONGEST_TIME_LIMIT_SECONDS: u32 = 86_400;
const MAX_NAME_CHARACTERS: usize = 200;
const MAX_GOAL_CHARACTERS: usize = 20_000;

named!(
    // Memory has jobs of its own.
    #[schema(as = ScheduledJobStatus)]
    JobStatus {
        /// It is started when it is due.
        Active = "active",
        /// Nothing happens until it is resumed or triggered.
        Paused = "paused",
        /// A job of one date that has had its run.
        Completed = "completed",
        /// A job of one date whose run failed for good.
        Failed = "failed",
    }
);

named!(
    /// What happens to a slot while the job still runs.
    OverlapPolicy {
        /// It is left out.
        Skip = "skip",
        /// It waits for the end of the run; one slot at most waits.
        BufferOne = "buffer_one",
        /// It runs beside the other one.
        Allow = "allow",
        /// The other one is stopped, and this one runs.
        CancelOther = "cancel_other",
    }
);

named!(
    /// How much the agent may do by itself in a run.
    JobExecutionMode {
        Autonomous = "autonomous",
        /// Every tool that changes something asks first; the run waits for the answer.
        ApprovalRequired = "approval_required",
    }
);

impl JobExecutionMode {
    #[must_use]
    pub fn tool_use(self) -> ToolUse {
        match self {
            Self::Autonomous => ToolUse::Free,
            Self::ApprovalRequired => ToolUse::Asking,
        }
    }
}

named!(ConditionType {
    /// An expression in CEL.
    Expression = "expression",
});

/// Where the output of a run goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRule {
    /// `<platform>:<channel>`, `email:<address>`, `webhook:<url>`, or `push:` for the devices that are woken.
    #[schema(min_length = 3, max_length = 2_100, example = "slack:#reports")]
    pub channel: String,
    /// Default `markdown`.
    #[serde(default)]
    pub format: MessageFormat,
}

/// What is to change of where the output goes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct DeliveryChange {
    /// `<platform>:<channel>`, `email:<address>`, `webhook:<url>`, or `push:` for the devices that are woken.
    #[serde(default)]
    #[schema(value_type = String, min_length = 3, max_length = 2_100, example = "slack:#reports")]
    pub channel: Option<String>,
    #[serde(default)]
    #[schema(value_type = MessageFormat)]
    pub format: Option<MessageFormat>,
}

impl From<DeliveryRule> for DeliveryChange {
    fn from(rule: DeliveryRule) -> Self {
        Self { channel: Some(rule.channel), format: Some(rule.format) }
    }
}

impl DeliveryRule {
    /// The rule with what is to change; `None` when there is no channel.
    fn changed(before: Option<Self>, change: DeliveryChange) -> Option<Self> {
        let (channel, format) = before.map(|before| (before.channel, before.format)).unzip();
        Some(Self { channel: change.channel.or(channel)?, format: change.format.or(format).unwrap_or_default() })
    }

    /// Why nothing can be sent there.
    fn fault(&self) -> Option<String> {
        match self.channel.parse::<Target>() {
            Err(error) => Some(error.to_string()),
            Ok(target) => target.fault(),
        }
    }
}

/// A run begins only while this is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCondition {
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// CEL over `now`, `job`, `last_run` (null before the first) and `run_count`.
    #[schema(min_length = 1, max_length = 1_000, example = "last_run == null || last_run.status == 'success'")]
    pub expression: String,
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub name: String,
    pub goal: String,
    pub agent_id: AgentId,
    /// None of a project that was deleted.
    pub project_id: Option<ProjectId>,
    pub schedule: Schedule,
    pub status: JobStatus,
    pub delivery: Option<DeliveryRule>,
    pub condition: Option<JobCondition>,
    pub retry: RetryRule,
    pub overlap: OverlapPolicy,
    pub misfire: MisfirePolicy,
    pub execution_mode: JobExecutionMode,
    /// Of one attempt, without the time in which it waits for an approval.
    pub time_limit_seconds: u32,
    /// Goes before the agent's and the settings' model.
    pub model: Option<String>,
    /// The last scheduled slot, or when it was made, resumed or rescheduled.
    pub counted_from: Timestamp,
    /// Only of an active job.
    pub next_run_at: Option<Timestamp>,
    pub last_run_at: Option<Timestamp>,
    /// Result of the last run that has ended, skipped ones aside; known where a job is looked up or listed.
    pub last_run_status: Option<RunStatus>,
    /// Runs that have begun.
    pub run_count: u64,
    /// An agent planned it by itself.
    pub made_by_agent: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What is wanted of a job; of a new one `name`, `goal`, the agent and the schedule are required. The agent
/// and the project are resolved by the caller.
#[derive(Debug, Clone, Default)]
pub struct JobFields {
    pub name: Option<String>,
    pub goal: Option<String>,
    pub schedule: Option<ScheduleSpec>,
    pub delivery: Patch<DeliveryChange>,
    pub condition: Patch<JobCondition>,
    pub retry: Patch<RetryChange>,
    pub overlap: Option<OverlapPolicy>,
    pub misfire: Option<MisfirePolicy>,
    pub execution_mode: Option<JobExecutionMode>,
    pub time_limit_seconds: Option<u32>,
    pub model: Patch<String>,
}

impl Job {
    /// A job of which nothing is known but whose it is; [`apply`](Self::apply) fills it.
    #[must_use]
    pub(crate) fn blank(id: JobId, agent_id: AgentId, schedule: Schedule, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            goal: String::new(),
            agent_id,
            project_id: None,
            schedule,
            status: JobStatus::Active,
            delivery: None,
            condition: None,
            retry: RetryRule::default(),
            overlap: OverlapPolicy::Skip,
            misfire: MisfirePolicy::default(),
            execution_mode: JobExecutionMode::Autonomous,
            time_limit_seconds: DEFAULT_TIME_LIMIT_SECONDS,
            model: None,
            counted_from: now,
            next_run_at: None,
            last_run_at: None,
            last_run_status: None,
            run_count: 0,
            made_by_agent: false,
            created_at: now,
            updated_at: now,
        }
    }

    /// Takes over what is wanted, the schedule excepted, and checks the result.
    pub(crate) fn apply(&mut self, wanted: &JobFields, problems: &mut Problems) -> UrlSecrets {
        if let Some(name) = &wanted.name {
            self.name = name.trim().to_owned();
        }
        if let Some(goal) = &wanted.goal {
            self.goal = goal.trim().to_owned();
        }
        problems.require(!self.name.is_empty(), "name", "is required and must not be blank");
        problems.require(!self.goal.is_empty(), "goal", "is required: say what the agent is to do");
        problems.require(self.name.chars().count() <= MAX_NAME_CHARACTERS, "name", "has 200 characters at most");
        problems.require(self.goal.chars().count() <= MAX_GOAL_CHARACTERS, "goal", "has 20,000 characters at most");
        for (field, text) in [("name", &self.name), ("goal", &self.goal)] {
            problems.require(!text.contains('\0'), field, "must not contain the character NUL");
        }
        let url_secrets = self.apply_delivery(&wanted.delivery, problems);
        let condition_before = self.condition.clone();
        wanted.condition.clone().apply(&mut self.condition);
        self.retry = match wanted.retry {
            Patch::Keep => self.retry,
            Patch::Clear => RetryRule::default(),
            Patch::Set(change) => self.retry.changed(change),
        };
        self.retry.check(problems);
        self.overlap = wanted.overlap.unwrap_or(self.overlap);
        self.misfire = wanted.misfire.unwrap_or(self.misfire);
        self.execution_mode = wanted.execution_mode.unwrap_or(self.execution_mode);
        self.time_limit_seconds = wanted.time_limit_seconds.unwrap_or(self.time_limit_seconds);
        let is_limit = (1..=LONGEST_TIME_LIMIT_SECONDS).contains(&self.time_limit_seconds);
        problems.require(is_limit, "time_limit_seconds", "is between 1 and 86,400 (a day)");
        if let Patch::Set(model) = &wanted.model {
            problems.require(!model.trim().is_empty(), "model", "must not be blank; null takes the agent's model");
        }
        wanted.model.clone().apply(&mut self.model);
        if let Some(condition) = &self.condition {
            let is_kept = self.condition == condition_before;
            let fault = match is_kept {
                true => condition::check_kept(&condition.expression, self).err().map(|error| error.to_string()),
                false => condition::fault(&condition.expression, self),
            };
            if let Some(fault) = fault {
                problems.add("condition.expression", fault);
            }
        }
        url_secrets
    }

    /// What becomes of the credentials in the url that is sent to.
    fn apply_delivery(&mut self, wanted: &Patch<DeliveryChange>, problems: &mut Problems) -> UrlSecrets {
        let before = self.delivery.take();
        self.delivery = match wanted {
            Patch::Keep => before.clone(),
            Patch::Clear => None,
            Patch::Set(change) => {
                let rule = DeliveryRule::changed(before.clone(), change.clone());
                problems.require(rule.is_some(), "delivery.channel", "is required");
                rule
            }
        };
        let before_channel = before.as_ref().map(|rule| rule.channel.as_str());
        let given = self.delivery.as_ref().map_or("", |rule| rule.channel.as_str());
        let sealed = SealedUrl::new(given, before_channel, UnknownMask::Refuse);
        let sealed = sealed.map_err(|problem| problems.add("delivery.channel", problem)).ok();
        if let (Some(rule), Some(sealed)) = (&mut self.delivery, &sealed) {
            rule.channel.clone_from(&sealed.shown);
        }
        let url_secrets = sealed.map(|sealed| sealed.secrets).unwrap_or_default();
        let Some(rule) = &self.delivery else { return url_secrets };
        // One that is kept is sent to as well as can be, once it can be read.
        let is_kept = self.delivery == before;
        let fault = match is_kept {
            true => rule.channel.parse::<Target>().err().map(|error| error.to_string()),
            false => rule.fault(),
        };
        if let Some(fault) = fault {
            problems.add("delivery.channel", fault);
        }
        url_secrets
    }

    /// Restarts counting at `now`: the next slot is the first one after it. Returns whether there is one.
    ///
    /// After a clock that was ahead this goes back behind slots that were handed out; those have a row each, so none of
    /// them gets a second run.
    pub(crate) fn count_from(&mut self, now: Timestamp) -> bool {
        self.counted_from = now;
        self.next_run_at = self.schedule.next_after(self.counted_from, self.counted_from);
        self.next_run_at.is_some()
    }

    /// Whom the run asks for its time zone where the schedule names none.
    #[must_use]
    pub fn zone(&self) -> Option<&Zone> {
        self.schedule.zone()
    }
}
