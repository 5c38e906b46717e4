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
pub(super) use request::{BodyFormat, is_stored_header, read_body};
pub(super) use template::Template;

agentd_base::typed_id!(
    /// Id of an inbound webhook.
    WebhookId,
    "whk"
);
agentd_base::typed_id!(
    /// Id of a delivery of a webhook.
    WebhookDeliveryId,
    "wdl"
);
agentd_store::stored_ids!(WebhookId, WebhookDeliveryId);

/// Name of the queue of turns to start.
pub(super) const QUEUE: &str = "webhooks";
/// Maximum number of webhooks. All of them are cached in memory with their secrets.
pub(super) const MAX_WEBHOOKS: usize = 1_000;
/// Limits of accepted requests and of turns waiting to start.
pub(super) const LIMITS: Limits = Limits {
    of_one: Rate { per_minute: 600 },
    in_all: Rate { per_minute: 6_000 },
    senders: MAX_WEBHOOKS,
    queue: QUEUE,
    max_waiting: 10_000,
    queue_is_full: "too many deliveries are waiting for their agents",
};
/// Retention of deliveries.
pub(super) const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum number of stored deliveries per webhook. The newest are retained.
pub(super) const MAX_DELIVERIES: u64 = 10_000;
/// Maximum total size of the stored bodies per webhook. The newest are retained.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// Time within which requests with the same message id are the same delivery.
pub(super) const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(24 * 3600);

const MIN_SECRET_CHARACTERS: usize = 8;
const MAX_SECRET_CHARACTERS: usize = 256;
const MAX_NAME_CHARACTERS: usize = 200;

/// An endpoint for signed requests. Its secret is stored in the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    pub name: String,
    /// Agent whose turn each request starts; `None` if requests only emit an event.
    pub agent_id: Option<AgentId>,
    /// Template of the prompt; `None` for the whole body.
    pub prompt_template: Option<String>,
    /// Permitted tools in addition to the read-only ones.
    pub tools: Vec<String>,
    pub enabled: bool,
    /// Reason the daemon disabled the webhook.
    pub disabled_reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Changes to a webhook, or the fields of a new one.
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
    /// Returns the webhook with a change applied. `agent` is the resolved agent of the change.
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

/// Returns why a secret chosen by the owner is invalid, if so.
pub(super) fn secret_problem(secret: &Secret) -> Option<String> {
    let text = secret.expose();
    let characters = text.chars().count();
    if !(MIN_SECRET_CHARACTERS..=MAX_SECRET_CHARACTERS).contains(&characters) {
        return Some(format!("must have {MIN_SECRET_CHARACTERS} to {MAX_SECRET_CHARACTERS} characters"));
    }
    if text.chars().any(char::is_control) {
        return Some("must not contain control characters".to_owned());
    }
    (!is_valid_secret(text)).then(|| format!("must be base64 after the prefix `{SECRET_PREFIX}`"))
}

/// Formats a random 256-bit secret as defined by Standard Webhooks.
pub(super) fn new_secret(bytes: [u8; 32]) -> Secret {
    Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
}

/// Status of a webhook delivery: `received` (accepted; the webhook names no agent), `pending` (the turn has not
/// started), `running` (or waiting for an approval), `success`, `failed`, `cancelled` or `interrupted` (the daemon
/// ended during the turn).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WebhookDeliveryStatus)]
pub enum DeliveryStatus {
    /// Accepted; the webhook names no agent.
    Received,
    /// The agent's turn has not started.
    Pending,
    /// The turn is running, or waits for an approval.
    Running,
    Success,
    Failed,
    Cancelled,
    /// The daemon ended during the turn.
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

    /// Parses a stored value. The database constraint excludes unknown values.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// An accepted request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: WebhookDeliveryId,
    pub webhook_id: WebhookId,
    /// Message id set by the sender.
    pub message_id: Option<String>,
    /// Delivery whose request this one replays.
    pub replay_of: Option<WebhookDeliveryId>,
    pub event_id: String,
    pub status: DeliveryStatus,
    pub body_bytes: u64,
    /// Agent whose turn it started.
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
    fn secrets_are_validated() {
        let problem = |text: &str| secret_problem(&Secret::new(text.to_owned()));
        assert_eq!(problem("correct horse"), None);
        assert_eq!(problem(new_secret([7; 32]).expose()), None);
        for bad in ["", "short", "with\nbreak", "whsec_", "whsec_not base64!", &"x".repeat(257)] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn check_reports_every_invalid_field() {
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
