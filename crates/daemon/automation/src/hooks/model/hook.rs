//! The hook entity.

use std::collections::BTreeSet;

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::Seq;
use serde_json::{Map, Value};

use super::HookId;
use super::config::{Action, BuiltinAction, HookType};
use super::filter::Filter;
use crate::notify::Target;

const DEFAULT_RETRIES: u32 = 5;
/// Prefix of the scope of a hook that receives the events of one agent.
pub(super) const AGENT_SCOPE: &str = "agent:";

/// A hook: an action that runs when an event of one type occurs.
#[derive(Debug, Clone)]
pub struct Hook {
    pub id: HookId,
    pub name: String,
    pub event_type: String,
    pub hook_type: HookType,
    pub enabled: bool,
    /// Reason the daemon disabled the hook.
    pub disabled_reason: Option<String>,
    /// `global`, or `agent:<svc_name>`.
    pub scope: String,
    /// The agent of the scope.
    pub agent_id: Option<AgentId>,
    /// Config without secrets. Credential headers are placeholders, except in rows of earlier versions.
    pub config: Map<String, Value>,
    pub action: Action,
    /// Whether requests must be signed.
    pub has_secret: bool,
    /// Whether the vault holds the secret. False after a restore without secrets.
    pub is_secret_stored: bool,
    /// Lowercase names of credential headers without a value, as after a restore without secrets.
    pub missing_headers: BTreeSet<String>,
    /// Vault names of config secrets without a value, as after a restore without secrets.
    pub missing_values: BTreeSet<String>,
    pub source_code: Option<String>,
    pub filter: Option<Filter>,
    /// Hooks with a higher priority start first.
    pub priority: i64,
    pub tags: Vec<String>,
    /// Maximum number of attempts, including the first.
    pub max_retries: u32,
    pub bundled_id: Option<String>,
    /// Outbox position after which the hook receives events. `None`: all unread events.
    pub heard_after: Option<Seq>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Hook {
    /// Scope of a hook that receives the events of every agent.
    pub const GLOBAL: &str = "global";
    /// Maximum of `max_retries`, equal to the bound in the request schemas.
    pub const MAX_RETRIES: u32 = 100;

    /// Returns an empty hook, to be filled by a [`HookChange`](super::HookChange).
    #[must_use]
    pub fn empty(id: HookId, hook_type: HookType, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            event_type: String::new(),
            hook_type,
            enabled: true,
            disabled_reason: None,
            scope: Self::GLOBAL.to_owned(),
            agent_id: None,
            config: Map::new(),
            action: Action::Broken("the hook has no config".to_owned()),
            has_secret: false,
            is_secret_stored: false,
            missing_headers: BTreeSet::new(),
            missing_values: BTreeSet::new(),
            source_code: None,
            filter: None,
            priority: 0,
            tags: Vec::new(),
            max_retries: DEFAULT_RETRIES,
            bundled_id: None,
            heard_after: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Whether the hook receives an event of its type at this position and of this agent. Ignores the filter.
    #[must_use]
    pub fn receives(&self, at: Seq, agent: Option<&str>) -> bool {
        let is_new = self.heard_after.is_none_or(|after| at > after);
        let is_its_agent = match &self.agent_id {
            None => true,
            Some(id) => agent.is_some_and(|agent| agent == id.as_str() || Some(agent) == self.agent_name()),
        };
        self.enabled && is_new && is_its_agent
    }

    /// Returns the `svc_name` in the scope.
    #[must_use]
    pub fn agent_name(&self) -> Option<&str> {
        self.scope.strip_prefix(AGENT_SCOPE)
    }

    /// Whether events are sent through the delivery queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(&self.action, Action::Http(http) if http.queued)
    }

    /// Returns the target of a `send_to_channel` action.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.action {
            Action::Builtin(BuiltinAction::SendToChannel { target, .. }) => Some(target),
            _ => None,
        }
    }

    /// Enables or disables the hook on behalf of the owner, and clears the daemon's reason for disabling it.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.disabled_reason = None;
    }
}
