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
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Event type, one of `GET /api/hooks/event-types`.
    #[schema(example = "memory.stored")]
    event_type: String,
    pub(super) hook_type: HookType,
    /// Settings of the action, depending on the type.
    ///
    /// HTTP hooks: `url`, `secret` (write-only, at least 8 bytes, 32 recommended), `headers` (`Authorization`, `Cookie`
    /// and `X-Api-Key` are write-only), `queued` (default false), `retry_delay_s` (10), `retry_multiplier` (2.0),
    /// `max_delay_s` (3600).
    ///
    /// Python hooks: any members, passed to the code as `config`. Members named like a credential (such as `secret`,
    /// `token`, `password` or `api_key`) and members listed in `secret_fields` are write-only at any depth.
    /// `timeout_seconds` (30) limits the run time.
    ///
    /// Built-in hooks: `action` and its parameters. `send_to_channel` takes `channel` (`<platform>:<channel>`,
    /// `email:<address>` or `webhook:<url>`), `template` and `subject`, and is the default if `channel` is set.
    /// `store_memory` takes `template`, `agent`, `importance` and `topics`. `start_agent` takes `agent`, `template` and
    /// `tools`: the tools permitted in addition to read-only ones; tools that act require approval. `call_hook` takes
    /// `hook_id`.
    ///
    /// Templates may contain `{{data.<field>}}`, `{{type}}`, `{{id}}` and `{{timestamp}}`. A missing field renders as
    /// an empty string.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    /// Code of a Python hook. It reads `event` and `config`, and sets `result` or defines `run(event)`.
    #[serde(default)]
    #[schema(max_length = 262_144)]
    source_code: Option<String>,
    /// Filter: `{field, op, value}`, or a combination `{all: […]}`, `{any: […]}` or `{not: {…}}`. `field` is a dotted
    /// path into the event (`data.agent_id`); `op` is one of `eq ne gt gte lt lte contains starts_with ends_with in
    /// exists matches`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filter_expr: Option<Value>,
    /// `global` (default), or `agent:<svc_name>` for events of that agent only. Such a hook is deleted with its agent.
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    /// Whether the hook is enabled; default true.
    #[serde(default)]
    enabled: Option<bool>,
    /// Hooks with a higher priority start first; default 0.
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i64>,
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
    /// Maximum number of attempts, including the first; default 5.
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

/// Changes of a hook. Omitted fields keep their value; the type cannot be changed.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateHook {
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
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
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 262_144)]
    source_code: Patch<String>,
    /// Filter; null matches every event of the type.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filter_expr: Patch<Value>,
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i64>,
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
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
    /// Name of the hook. Default: the name of the bundled hook.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Merged over the default config. Must contain the members listed as `required`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
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
