//! Request bodies for hooks.

use agentd_base::{FieldProblem, Patch};
use agentd_web::Validate;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::hooks::model::{HookChange, HookType};
use crate::hooks::service::Hooks;

/// Definition of a new hook.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateHook {
    /// Display name, 1 to 200 characters after trimming.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Event type, one of `GET /api/hooks/event-types`.
    #[schema(example = "memory.stored")]
    event_type: String,
    /// Type of the action. It cannot be changed later.
    pub(super) hook_type: HookType,
    /// Settings of the action, depending on the type; at most 65,536 bytes as JSON.
    ///
    /// HTTP hooks: `url`, `secret` (write-only, 8 to 1,024 bytes, 32 recommended), `headers` (at most 50;
    /// `Authorization`, `Cookie` and `X-Api-Key` are write-only), `queued` (default false), `retry_delay_s` (seconds, 0
    /// to 604,800; default 10), `retry_multiplier` (1 to 100; default 2), `max_delay_s` (seconds, 0 to 604,800; default
    /// 3,600).
    ///
    /// Python hooks: any members, passed to the code as `config`. Members named like a credential (such as `secret`,
    /// `token`, `password` or `api_key`) and members listed in `secret_fields` are write-only at any depth.
    /// `timeout_seconds` (1 to 300; default 30) limits the run time.
    ///
    /// Built-in hooks: `action` and its parameters. `send_to_channel` takes `channel` (`<platform>:<channel>`,
    /// `email:<address>` or `webhook:<url>`), `template` and `subject`, and is the default if `channel` is set.
    /// `store_memory` takes `template`, `agent`, `importance` (0 to 1) and `topics` (at most 32). `start_agent` takes
    /// `agent`, `template` and `tools`: the tools permitted in addition to read-only ones; tools that act require
    /// approval. `call_hook` takes `hook_id`.
    ///
    /// Templates have at most 16,384 bytes and may contain `{{data.<field>}}`, `{{type}}`, `{{id}}` and
    /// `{{timestamp}}`. A missing field renders as an empty string.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    /// Code of a Python hook, at most 262,144 bytes. It reads `event` and `config`, and sets `result` or defines
    /// `run(event)`. Required for Python hooks, rejected for others.
    #[serde(default)]
    #[schema(max_length = 262_144)]
    source_code: Option<String>,
    /// Filter: `{field, op, value}`, or a combination `{all: […]}`, `{any: […]}` or `{not: {…}}`. `field` is a dotted
    /// path into the event (`data.agent_id`); `op` is one of `eq ne gt gte lt lte contains starts_with ends_with in
    /// exists matches`. At most 100 parts, 8 levels deep. By default every event of the type matches.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filter_expr: Option<Value>,
    /// Events that the hook receives: `global` for all, or `agent:<svc_name>` for those of one agent. A hook of an
    /// agent is deleted with the agent. Default: `global`.
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    /// Whether the hook is enabled. Default: true.
    #[serde(default)]
    enabled: Option<bool>,
    /// Priority from -1,000 to 1,000; hooks with a higher priority start first. Default: 0.
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i64>,
    /// Labels for finding the hook: at most 32, each 1 to 64 characters. Duplicates are removed.
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
    /// Maximum number of attempts, including the first; 1 to 100. Default: 5.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    max_retries: Option<u32>,
}

impl From<CreateHook> for HookChange {
    fn from(fields: CreateHook) -> Self {
        Self {
            name: Some(fields.name),
            event_type: Some(fields.event_type),
            enabled: fields.enabled,
            scope: fields.scope,
            config: fields.config,
            source_code: fields.source_code.map_or(Patch::Keep, Patch::Set),
            filter_expr: fields.filter_expr.map_or(Patch::Keep, Patch::Set),
            priority: fields.priority,
            tags: fields.tags,
            max_retries: fields.max_retries,
            bundled_id: None,
        }
    }
}

impl Validate<Hooks> for CreateHook {
    const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = &[("hook_type", &["config", "source_code"])];

    async fn validate(self, hooks: &Hooks) -> Vec<FieldProblem> {
        hooks.problems(self.hook_type, self.into()).await
    }
}

/// Changes to a hook. Omitted fields keep their value; the type cannot be changed.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateHook {
    /// Display name, 1 to 200 characters after trimming.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Event type, one of `GET /api/hooks/event-types`. The hook receives events of a new type from this moment.
    #[serde(default)]
    event_type: Option<String>,
    /// Must equal the current type.
    #[serde(default)]
    pub(super) hook_type: Option<HookType>,
    /// Merged over the current config by name; null removes a name. `{"set": true}` keeps the stored value of `secret`,
    /// of credential headers and of config secrets. Credential headers must be entered again if the host of the URL
    /// changes. Config secrets must be entered again if the code or another part of the config changes.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    /// Code of a Python hook, at most 262,144 bytes; null is rejected for Python hooks.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 262_144)]
    source_code: Patch<String>,
    /// Filter; null matches every event of the type.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filter_expr: Patch<Value>,
    /// `global` for the events of all agents, or `agent:<svc_name>` for those of one agent.
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    /// Whether the hook is enabled. An enabled hook receives events from this moment.
    #[serde(default)]
    enabled: Option<bool>,
    /// Priority from -1,000 to 1,000; hooks with a higher priority start first.
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i64>,
    /// Labels that replace the current ones: at most 32, each 1 to 64 characters. Duplicates are removed.
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
    /// Maximum number of attempts, including the first; 1 to 100.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    max_retries: Option<u32>,
}

impl From<UpdateHook> for HookChange {
    fn from(fields: UpdateHook) -> Self {
        Self {
            name: fields.name,
            event_type: fields.event_type,
            enabled: fields.enabled,
            scope: fields.scope,
            config: fields.config,
            source_code: fields.source_code,
            filter_expr: fields.filter_expr,
            priority: fields.priority,
            tags: fields.tags,
            max_retries: fields.max_retries,
            bundled_id: None,
        }
    }
}

/// Settings for the installation of a bundled hook.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct InstallHook {
    /// Display name, 1 to 200 characters after trimming. Default: the name of the bundled hook.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Config that is merged over the default config. Must contain the members listed as `required`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    /// Events that the hook receives: `global` for all, or `agent:<svc_name>` for those of one agent. Default:
    /// `global`.
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    /// Whether the hook is enabled. Default: true.
    #[serde(default)]
    enabled: Option<bool>,
}

impl From<InstallHook> for HookChange {
    fn from(fields: InstallHook) -> Self {
        Self {
            name: fields.name,
            config: fields.config,
            scope: fields.scope,
            enabled: fields.enabled,
            ..Self::default()
        }
    }
}
