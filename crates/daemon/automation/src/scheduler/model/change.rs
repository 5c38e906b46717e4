//! Changes to a job: validation and application.

use agentd_base::{Patch, Problems};
use agentd_core::vault::{SealedUrl, UnknownMask, UrlSecrets};
use agentd_schedule::{MisfirePolicy, ScheduleSpec};
use serde::Deserialize;
use utoipa::ToSchema;

use super::condition;
use super::job::{DeliveryRule, Job, JobCondition, JobExecutionMode, OverlapPolicy};
use super::retry::{RetryChange, RetryRule};
use crate::notify::{MessageFormat, Target};

const MAX_TIME_LIMIT_SECONDS: u32 = 86_400;
const MAX_NAME_CHARACTERS: usize = 200;
const MAX_GOAL_CHARACTERS: usize = 20_000;

/// Changes to a delivery rule. Omitted fields keep their value.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct DeliveryChange {
    /// Target: `<platform>:<channel>`, `email:<address>`, `webhook:<url>`, or `push:` for the registered devices.
    #[serde(default)]
    #[schema(value_type = String, min_length = 3, max_length = 2_100, example = "slack:#reports")]
    pub channel: Option<String>,
    /// Format of the message.
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
    /// Returns the rule with the changes applied, or `None` if it has no channel.
    fn changed(before: Option<Self>, change: DeliveryChange) -> Option<Self> {
        let (channel, format) = before.map(|before| (before.channel, before.format)).unzip();
        Some(Self { channel: change.channel.or(channel)?, format: change.format.or(format).unwrap_or_default() })
    }

    /// Returns why the channel cannot be used, if so.
    fn fault(&self) -> Option<String> {
        match self.channel.parse::<Target>() {
            Err(error) => Some(error.to_string()),
            Ok(target) => target.fault(),
        }
    }
}

/// Requested fields of a job. A new job requires `name`, `goal`, an agent and a schedule. The caller resolves the agent
/// and the project.
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
    /// Applies all fields except the schedule and validates the result. Returns the credentials of the delivery URL.
    pub(crate) fn apply(&mut self, wanted: &JobFields, problems: &mut Problems) -> UrlSecrets {
        if let Some(name) = &wanted.name {
            self.name = name.trim().to_owned();
        }
        if let Some(goal) = &wanted.goal {
            self.goal = goal.trim().to_owned();
        }
        problems.require(!self.name.is_empty(), "name", "is required and must not be blank");
        problems.require(!self.goal.is_empty(), "goal", "is required; describe the task for the agent");
        problems.require(self.name.chars().count() <= MAX_NAME_CHARACTERS, "name", "must have at most 200 characters");
        problems.require(
            self.goal.chars().count() <= MAX_GOAL_CHARACTERS,
            "goal",
            "must have at most 20,000 characters",
        );
        for (field, text) in [("name", &self.name), ("goal", &self.goal)] {
            problems.require(!text.contains('\0'), field, "must not contain the NUL character");
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
        let is_limit = (1..=MAX_TIME_LIMIT_SECONDS).contains(&self.time_limit_seconds);
        problems.require(is_limit, "time_limit_seconds", "must be between 1 and 86,400 (one day)");
        if let Patch::Set(model) = &wanted.model {
            problems.require(
                !model.trim().is_empty(),
                "model",
                "must not be blank; use null for the model of the agent",
            );
        }
        wanted.model.clone().apply(&mut self.model);
        if let Some(condition) = &self.condition {
            let is_unchanged = self.condition == condition_before;
            let fault = match is_unchanged {
                true => condition::check_unchanged(&condition.expression, self).err().map(|error| error.to_string()),
                false => condition::fault(&condition.expression, self),
            };
            if let Some(fault) = fault {
                problems.add("condition.expression", fault);
            }
        }
        url_secrets
    }

    /// Applies the delivery rule and returns the changes to the credentials in its URL.
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
        // An unchanged channel only has to be parseable.
        let is_unchanged = self.delivery == before;
        let fault = match is_unchanged {
            true => rule.channel.parse::<Target>().err().map(|error| error.to_string()),
            false => rule.fault(),
        };
        if let Some(fault) = fault {
            problems.add("delivery.channel", fault);
        }
        url_secrets
    }
}
