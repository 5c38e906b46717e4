//! What answers show.

use agentd_base::Timestamp;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::{Map, Value, json};
use url::Url;
use utoipa::ToSchema;

use crate::hooks::model::{
    Delivery, DeliveryStatus, Execution, ExecutionId, ExecutionStatus, Hook, HookDeliveryId, HookId, HookType, SECRET,
};
use crate::hooks::service::DeliveryCounts;
use crate::notify::Target;

/// What reacts to events of one type.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Hook)]
pub(super) struct HookView {
    id: HookId,
    name: String,
    event_type: String,
    hook_type: HookType,
    enabled: bool,
    /// Why the daemon itself switched it off.
    #[schema(required)]
    disabled_reason: Option<String>,
    /// `global`, or `agent:<svc_name>`.
    scope: String,
    /// With its defaults; `secret`, headers that carry a credential and secrets for code read `{"set": …}`. To a key that may only read, urls show scheme and host alone,
    /// headers and what code is given their names: the rest may hold tokens.
    #[schema(value_type = Object)]
    config: Map<String, Value>,
    #[schema(required)]
    source_code: Option<String>,
    #[schema(required, value_type = Option<Object>)]
    filter_expr: Option<Value>,
    priority: i64,
    tags: Vec<String>,
    /// Attempts in all.
    max_retries: u32,
    /// The bundled hook that it was made of.
    #[schema(required)]
    bundled_id: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Hook> for HookView {
    fn from(hook: &Hook) -> Self {
        let mut config = hook.shown_config();
        if hook.has_secret || hook.hook_type == HookType::Http {
            config.insert(SECRET.to_owned(), json!({"set": hook.keeps_secret}));
        }
        Self {
            id: hook.id.clone(),
            name: hook.name.clone(),
            event_type: hook.event_type.clone(),
            hook_type: hook.hook_type,
            enabled: hook.enabled,
            disabled_reason: hook.disabled_reason.clone(),
            scope: hook.scope.clone(),
            config,
            source_code: hook.source_code.clone(),
            filter_expr: hook.filter.as_ref().map(|filter| filter.source().clone()),
            priority: hook.priority,
            tags: hook.tags.clone(),
            max_retries: hook.max_retries,
            bundled_id: hook.bundled_id.clone(),
            created_at: hook.created_at,
            updated_at: hook.updated_at,
        }
    }
}

impl HookView {
    /// As the caller may see it: where a hook sends to, the headers that it sends, and what its code is given, may hold
    /// tokens.
    pub(super) fn shown_to(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Full {
            return self;
        }
        for (name, value) in &mut self.config {
            match (self.hook_type, name.as_str(), &value) {
                (HookType::Http, "url", Value::String(url)) => {
                    let origin = Url::parse(url).map(|url| url.origin().ascii_serialization());
                    *value = json!(origin.unwrap_or_else(|_| "?".to_owned()));
                }
                (HookType::Http, "headers", Value::Object(headers)) => {
                    *value = headers.keys().map(|name| (name.clone(), json!("[hidden]"))).collect();
                }
                // Whatever the code is given may be a token.
                (HookType::Python, name, _) if name != SECRET && name != "timeout_seconds" => {
                    *value = json!("[hidden]");
                }
                (HookType::Builtin, "channel", Value::String(channel)) => {
                    *value = json!(channel.parse::<Target>().map_or_else(|_| "?".to_owned(), |target| target.shown()));
                }
                _ => {}
            }
        }
        self
    }
}

/// What a hook did about one event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookExecution)]
pub(super) struct ExecutionView {
    id: ExecutionId,
    hook_id: HookId,
    event_id: String,
    event_type: String,
    status: ExecutionStatus,
    attempt_count: u32,
    /// Of code `{result, printed}`, of a request `{status}`, of the rest what it made; null while it runs.
    #[schema(required, value_type = Option<Object>)]
    output: Value,
    #[schema(required)]
    error: Option<String>,
    started_at: Timestamp,
    #[schema(required)]
    completed_at: Option<Timestamp>,
    #[schema(required)]
    duration_ms: Option<u64>,
}

impl From<&Execution> for ExecutionView {
    fn from(execution: &Execution) -> Self {
        Self {
            id: execution.id.clone(),
            hook_id: execution.hook_id.clone(),
            event_id: execution.event_id.clone(),
            event_type: execution.event_type.clone(),
            status: execution.status,
            attempt_count: execution.attempt_count,
            output: execution.output.clone(),
            error: execution.error.clone(),
            started_at: execution.started_at,
            completed_at: execution.completed_at,
            duration_ms: execution.duration_ms,
        }
    }
}

/// One event on its way to one receiver.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDelivery)]
pub(super) struct DeliveryView {
    id: HookDeliveryId,
    hook_id: HookId,
    event_id: String,
    event_type: String,
    status: DeliveryStatus,
    /// Attempts whose result is known, since the last retry by hand.
    attempt_count: u32,
    /// When it is tried next; null when it is not.
    #[schema(required)]
    next_attempt_at: Option<Timestamp>,
    /// What the receiver answered last.
    #[schema(required)]
    response_status: Option<u32>,
    /// Of the last attempt.
    #[schema(required)]
    duration_ms: Option<u64>,
    #[schema(required)]
    error: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Delivery> for DeliveryView {
    fn from(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id.clone(),
            hook_id: delivery.hook_id.clone(),
            event_id: delivery.event_id.clone(),
            event_type: delivery.event_type.clone(),
            status: delivery.status,
            attempt_count: delivery.attempt_count,
            next_attempt_at: delivery.next_attempt_at,
            response_status: delivery.response_status,
            duration_ms: delivery.duration_ms,
            error: delivery.error.clone(),
            created_at: delivery.created_at,
            updated_at: delivery.updated_at,
        }
    }
}

/// How many deliveries are in each state. What ended is kept for a bounded time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDeliveryCounts)]
pub(super) struct CountsView {
    pending: u64,
    processing: u64,
    success: u64,
    failed: u64,
    dead_letter: u64,
}

impl From<DeliveryCounts> for CountsView {
    fn from(counts: DeliveryCounts) -> Self {
        let DeliveryCounts { pending, processing, success, failed, dead_letter } = counts;
        Self { pending, processing, success, failed, dead_letter }
    }
}
