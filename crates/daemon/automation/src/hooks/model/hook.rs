//! A hook: what reacts to events of one type.

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
/// Prefix of the scope of a hook that hears the events of one agent.
pub(super) const AGENT_SCOPE: &str = "agent:";

/// What reacts to events of one type.
#[derive(Debug, Clone)]
pub struct Hook {
    pub id: HookId,
    pub name: String,
    pub event_type: String,
    pub hook_type: HookType,
    pub enabled: bool,
    /// Why the daemon itself switched it off.
    pub disabled_reason: Option<String>,
    /// `global`, or `agent:<svc_name>`.
    pub scope: String,
    /// The agent of the scope.
    pub agent_id: Option<AgentId>,
    /// Without its secret; headers that carry a credential say `{"set": true}`, but for those of old rows.
    pub config: Map<String, Value>,
    pub action: Action,
    /// What it sends must be signed.
    pub has_secret: bool,
    /// The secret is there; not so after a restore without secrets.
    pub keeps_secret: bool,
    /// Headers that carry a credential and have no value, as after a restore without secrets; in small letters.
    pub missing_headers: BTreeSet<String>,
    /// Names in the vault of config secrets without a value, as after a restore without secrets.
    pub missing_values: BTreeSet<String>,
    pub source_code: Option<String>,
    pub filter: Option<Filter>,
    /// Higher ones go first.
    pub priority: i64,
    pub tags: Vec<String>,
    /// Attempts in all.
    pub max_retries: u32,
    pub bundled_id: Option<String>,
    /// It hears the events after this position. `None`: all that are unread.
    pub heard_after: Option<Seq>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Hook {
    /// The scope of a hook that hears the events of every agent.
    pub const GLOBAL: &str = "global";
    /// As the schemas of requests have it.
    pub const MOST_RETRIES: u32 = 100;

    /// A new one, to be filled by a [`HookChange`].
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
            action: Action::Broken("it has no config yet".to_owned()),
            has_secret: false,
            keeps_secret: false,
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

    /// Whether it is for an event of its type at this position and of this agent, its filter aside.
    #[must_use]
    pub fn hears(&self, at: Seq, agent: Option<&str>) -> bool {
        let is_new = self.heard_after.is_none_or(|after| at > after);
        let is_its_agent = match &self.agent_id {
            None => true,
            Some(id) => agent.is_some_and(|agent| agent == id.as_str() || Some(agent) == self.agent_name()),
        };
        self.enabled && is_new && is_its_agent
    }

    /// The `svc_name` of its scope.
    #[must_use]
    pub fn agent_name(&self) -> Option<&str> {
        self.scope.strip_prefix(AGENT_SCOPE)
    }

    /// Whether what it sends goes through the delivery queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(&self.action, Action::Http(http) if http.queued)
    }

    /// Where what it writes is sent to.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.action {
            Action::Builtin(BuiltinAction::SendToChannel { target, .. }) => Some(target),
            _ => None,
        }
    }

    /// Switched by hand, so whatever the daemon had against it is settled.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.disabled_reason = None;
    }
}
