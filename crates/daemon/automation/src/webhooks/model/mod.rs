//! Webhooks and their deliveries.

mod request;
mod template;

use std::time::Duration;

use agentd_base::{FieldProblem, Patch, Problems, Secret, SecretUpdate, Timestamp};
use agentd_core::rate_limit::{Limits, Rate};
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{check_tools, distinct_tools};
use agentd_net::webhook_signature::{SECRET_PREFIX, is_valid_secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use request::StoredRequest;
pub(super) use request::{BodyFormat, is_kept_header, read_body};
pub(super) use template::Template;

agentd_base::typed_id!(
    /// The id of an inbound webhook.
    WebhookId,
    "whk"
);
agentd_base::typed_id!(
    /// The id of something that came through a webhook.
    WebhookDeliveryId,
    "wdl"
);
agentd_store::stored_ids!(WebhookId, WebhookDeliveryId);

/// The queue of turns that have to begin.
pub(super) const QUEUE: &str = "webhooks";
/// They are kept in memory with their secrets.
pub(super) const MAX_WEBHOOKS: usize = 1_000;
/// How many requests are let in, and how many of their turns may wait for their beginning.
pub(super) const LIMITS: Limits = Limits {
    of_one: Rate { per_minute: 600 },
    in_all: Rate { per_minute: 6_000 },
    senders: MAX_WEBHOOKS,
    queue: QUEUE,
    max_waiting: 10_000,
    queue_is_full: "too many deliveries wait for their agents",
};
/// Deliveries are kept for 30 days.
pub(super) const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// A webhook keeps so many deliveries at most, and so many bytes of what came; the newest stay.
pub(super) const MAX_DELIVERIES: u64 = 10_000;
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// The same id of a message within this time is the same delivery.
pub(super) const REPEATS_WITHIN: Duration = Duration::from_secs(24 * 3600);

const MIN_SECRET_CHARACTERS: usize = 8;
const MAX_SECRET_CHARACTERS: usize = 256;
const MAX_NAME_CHARACTERS: usize = 200;

/// An endpoint for signed requests. Its secret is in the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    pub name: String,
    /// Who looks at what comes; `None`: nobody, it is an event alone.
    pub agent_id: Option<AgentId>,
    /// What that agent is told; `None`: what came, as a whole.
    pub prompt_template: Option<String>,
    /// Tools besides those that change nothing.
    pub tools: Vec<String>,
    pub enabled: bool,
    /// Why the daemon switched it off by itself.
    pub disabled_reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A change of a webhook, or what a new one is made from. The agent is resolved already.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    pub name: Option<String>,
    pub secret: Patch<SecretUpdate>,
    /// Id or `svc_name`.
    pub agent: Patch<String>,
    pub prompt_template: Patch<String>,
    pub tools: Option<Vec<String>>,
    pub enabled: Option<bool>,
}

impl Webhook {
    /// The webhook as a change makes it, `agent` being whom it names.
    pub(super) fn changed(&self, change: &WebhookChange, agent: &Patch<AgentId>, now: Timestamp) -> Self {
        let mut changed = self.clone();
        if let Some(name) = &change.name {
            changed.name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        agent.clone().apply(&mut changed.agent_id);
        change.prompt_template.clone().apply(&mut changed.prompt_template);
        changed.prompt_template = changed.prompt_template.filter(|text| !text.trim().is_empty());
        if let Some(tools) = &change.tools {
            changed.tools = distinct_tools(tools);
        }
        if let Some(enabled) = change.enabled {
            changed.enabled = enabled;
            changed.disabled_reason = None;
        }
        changed.updated_at = now;
        changed
    }

    pub(super) fn check(&self) -> Result<(), Vec<FieldProblem>> {
        let mut problems = Problems::new();
        problems.require(
            (1..=MAX_NAME_CHARACTERS).contains(&self.name.chars().count()),
            "name",
            format!("must have 1 to {MAX_NAME_CHARACTERS} characters"),
        );
        if let Some(problem) = self.prompt_template.as_deref().and_then(|text| Template::parse(text).err()) {
            problems.add("prompt_template", problem);
        }
        check_tools("tools", &self.tools, &mut problems);
        problems.into_result()
    }
}

/// What is wrong with a secret that an owner chose.
pub(super) fn secret_problem(secret: &Secret) -> Option<String> {
    let text = secret.expose();
    let characters = text.chars().count();
    if !(MIN_SECRET_CHARACTERS..=MAX_SECRET_CHARACTERS).contains(&characters) {
        return Some(format!("must have {MIN_SECRET_CHARACTERS} to {MAX_SECRET_CHARACTERS} characters"));
    }
    if text.chars().any(char::is_control) {
        return Some("must have no control characters".to_owned());
    }
    (!is_valid_secret(text)).then(|| format!("must have base64 after `{SECRET_PREFIX}`, or begin with something else"))
}

/// A secret of 256 random bits, as Standard Webhooks writes it.
pub(super) fn new_secret(bytes: [u8; 32]) -> Secret {
    Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WebhookDeliveryStatus)]
pub enum DeliveryStatus {
    /// Accepted; the webhook names no agent.
    Received,
    /// Its agent's turn has still to begin.
    Pending,
    /// The turn is under way, or waits for an approval.
    Running,
    Success,
    Failed,
    Cancelled,
    /// The daemon ended in the middle of the turn.
    Interrupted,
}

impl DeliveryStatus {
    const ALL: [Self; 7] =
        [Self::Received, Self::Pending, Self::Running, Self::Success, Self::Failed, Self::Cancelled, Self::Interrupted];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// What the database holds is one of these: a rule of the table says so.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// A request that was accepted, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: WebhookDeliveryId,
    pub webhook_id: WebhookId,
    /// What the sender calls it.
    pub message_id: Option<String>,
    /// The delivery whose request this one repeats.
    pub replay_of: Option<WebhookDeliveryId>,
    pub event_id: String,
    pub status: DeliveryStatus,
    pub body_bytes: u64,
    /// Whose turn it started.
    pub agent_id: Option<AgentId>,
    pub session_id: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_enough_and_what_they_say_they_are() {
        let problem = |text: &str| secret_problem(&Secret::new(text.to_owned()));
        assert_eq!(problem("correct horse"), None);
        assert_eq!(problem(new_secret([7; 32]).expose()), None);
        for bad in ["", "short", "with\nbreak", "whsec_", "whsec_not base64!", &"x".repeat(257)] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_change_names_every_bad_field() {
        let blank = Webhook {
            id: WebhookId::from("whk_1"),
            name: "ci".to_owned(),
            agent_id: None,
            prompt_template: None,
            tools: Vec::new(),
            enabled: true,
            disabled_reason: None,
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
        };
        assert!(blank.check().is_ok());
        let change = WebhookChange {
            name: Some("  ".to_owned()),
            prompt_template: Patch::Set("{{bdy}}".to_owned()),
            tools: Some(vec!["shell".to_owned(), "shell".to_owned(), "rm -rf".to_owned()]),
            ..WebhookChange::default()
        };
        let changed = blank.changed(&change, &Patch::Keep, Timestamp::from_micros(2));
        assert_eq!(changed.tools, ["shell", "rm -rf"]);
        let fields: Vec<String> = changed.check().unwrap_err().into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["name", "prompt_template", "tools[1]"]);
    }
}
