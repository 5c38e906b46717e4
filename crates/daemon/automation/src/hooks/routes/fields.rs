//! What requests say of a hook.

use agentd_base::{FieldProblem, Patch};
use agentd_web::Validate;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::hooks::model::{HookChange, HookType};
use crate::hooks::service::Hooks;

/// What a hook is made from.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateHook {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// One of `GET /api/hooks/event-types`.
    #[schema(example = "memory.stored")]
    event_type: String,
    pub(super) hook_type: HookType,
    /// Of an http hook: `url`, `secret` (write-only, 8 characters at least, 32 recommended), `headers` (`Authorization`,
    /// `Cookie` and `X-Api-Key` are write-only), `queued` (default false), `retry_delay_s` (10), `retry_multiplier` (2.0), `max_delay_s` (3600). Of a python hook anything; the code
    /// finds it as `config`. Members named like a credential (`secret`, `token`, `password`, `api_key` and the like) and
    /// those that `secret_fields` names, at any depth, are write-only; `timeout_seconds` (30) is its limit. Of a builtin hook: `action`
    /// and what it needs: `send_to_channel` (the default where there is a `channel`: `<platform>:<channel>`, `email:<address>`
    /// or `webhook:<url>`, with `template` and `subject`), `store_memory` (`template`, `agent`, `importance`, `topics`),
    /// `start_agent` (`agent`, `template`, `tools`: those that the agent may use besides those that change nothing; those that act ask first), `call_hook` (`hook_id`). Templates hold `{{data.<field>}}`, `{{type}}`,
    /// `{{id}}`, `{{timestamp}}`; a field that an event does not have is nothing.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    /// Of a python hook: finds `event` and `config`, leaves `result`, or defines `run(event)`.
    #[serde(default)]
    #[schema(max_length = 262_144)]
    source_code: Option<String>,
    /// `{field, op, value}`, or `{all: […]}`, `{any: […]}`, `{not: {…}}` of such. `field` is a dotted path into the event
    /// (`data.agent_id`); `op` is `eq ne gt gte lt lte contains starts_with ends_with in exists matches`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filter_expr: Option<Value>,
    /// `global` (default), or `agent:<svc_name>`: only events of that agent. The hook goes with the agent.
    #[serde(default)]
    #[schema(max_length = 100)]
    scope: Option<String>,
    /// Default true.
    #[serde(default)]
    enabled: Option<bool>,
    /// Higher ones go first; default 0.
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i64>,
    #[serde(default)]
    #[schema(max_items = 32)]
    tags: Option<Vec<String>>,
    /// Attempts in all; default 5.
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

/// What is to be changed of a hook; what is left out stays. Its type stays what it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateHook {
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    #[serde(default)]
    event_type: Option<String>,
    /// Must be the type that the hook has.
    #[serde(default)]
    pub(super) hook_type: Option<HookType>,
    /// Laid over the config there is, name by name; null takes a name out. `secret` as `{"set": true}` keeps
    /// it; so do the headers that carry a credential, which must be entered again where the url leads to another host,
    /// and the secrets for code, which must be entered again where the code or another part of the config changes.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 262_144)]
    source_code: Patch<String>,
    /// null: every event of its type.
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

/// What the owner adds to a bundled hook.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct InstallHook {
    /// Left out: the bundled hook's.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Laid over the config that it comes with; must hold what it names as `required`.
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
