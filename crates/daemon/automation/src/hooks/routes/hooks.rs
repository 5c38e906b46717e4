//! Hooks themselves, and what they did.

use std::collections::BTreeMap;

use agentd_base::{Edge, FieldProblem, Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{
    Answer, ApiError, ApiResult, Caller, ErrorBody, IdempotencyKey, Json, Path, Query, Scope, Validate, Validated,
};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;
use utoipa::{IntoParams, ToSchema};

use super::fields::{CreateHook, UpdateHook};
use crate::hooks::model::{Execution, ExecutionId, ExecutionStatus, Hook, HookId, HookType, SECRET};
use crate::hooks::service::Hooks;
use crate::hooks::test_run;
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

/// Every hook, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookList {
    hooks: Vec<HookView>,
    /// Number of dead letters by the id of their hook; hooks without any are left out.
    dead_letters: BTreeMap<String, u64>,
}

/// Every hook, the oldest first
#[utoipa::path(get, path = "/api/hooks", tag = "hooks", responses((status = 200, body = HookList)))]
pub(super) async fn list_hooks(State(hooks): State<Hooks>, caller: Caller) -> Answer<HookList> {
    let dead_letters = hooks.dead_letter_counts().await?;
    let hooks = hooks.list().await?.iter().map(|hook| HookView::from(hook).shown_to(&caller)).collect();
    Ok(Json(HookList { hooks, dead_letters }))
}

/// Make a hook
///
/// It hears what happens from now on. A `queued` http hook delivers through a queue that survives restarts, with
/// backoff and dead letters; everything else runs at once in the background, and is an execution.
#[utoipa::path(
    post, path = "/api/hooks", tag = "hooks", request_body = CreateHook,
    params(IdempotencyKey),
    responses(
        (status = 201, body = HookView),
        (status = 409, body = ErrorBody, description = "There are 1,000 hooks already"),
    ),
)]
pub(super) async fn create_hook(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<CreateHook>>,
) -> ApiResult<(StatusCode, Json<HookView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |hook: &Hook| HookView::from(hook));
    let hook = hooks.create(fields.hook_type, fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(HookView::from(&hook))))
}

/// Show one hook
#[utoipa::path(
    get, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "The hook")),
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody)),
)]
pub(super) async fn get_hook(State(hooks): State<Hooks>, caller: Caller, Path(id): Path<HookId>) -> Answer<HookView> {
    Ok(Json(HookView::from(&hooks.get(&id).await?).shown_to(&caller)))
}

/// Change a hook
#[utoipa::path(
    put, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "The hook")), request_body = UpdateHook,
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody)),
)]
pub(super) async fn update_hook(
    State(hooks): State<Hooks>,
    Path(id): Path<HookId>,
    Json(fields): Json<UpdateHook>,
) -> Answer<HookView> {
    if let Some(wanted) = fields.hook_type {
        let mut problems = Problems::new();
        let has = hooks.get(&id).await?.hook_type;
        problems.require(has == wanted, "hook_type", "cannot be changed; make another hook");
        problems.into_result().map_err(ApiError::invalid)?;
    }
    Ok(Json(HookView::from(&hooks.update(id, fields.into()).await?)))
}

/// Switch a hook off, or on again
///
/// While it is off, what is queued for it waits.
#[utoipa::path(
    patch, path = "/api/hooks/{id}/toggle", tag = "hooks", params(("id" = String, Path, description = "The hook")),
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody)),
)]
pub(super) async fn toggle_hook(State(hooks): State<Hooks>, Path(id): Path<HookId>) -> Answer<HookView> {
    Ok(Json(HookView::from(&hooks.toggle(id).await?)))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeleted {
    /// Always true.
    success: bool,
}

/// Delete a hook
///
/// What is queued for it becomes dead letters, with that as the reason; what is being sent ends as it ends.
#[utoipa::path(
    delete, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "The hook")),
    responses((status = 200, body = HookDeleted), (status = 404, body = ErrorBody)),
)]
pub(super) async fn delete_hook(State(hooks): State<Hooks>, Path(id): Path<HookId>) -> Answer<HookDeleted> {
    hooks.delete(id).await?;
    Ok(Json(HookDeleted { success: true }))
}

/// Run a hook now with an event made up for it
///
/// Once, whatever its filter says and also when it is switched off. Answers when it is done. What it does really
/// happens.
#[utoipa::path(
    post, path = "/api/hooks/{id}/test", tag = "hooks",
    params(("id" = String, Path, description = "The hook"), IdempotencyKey),
    responses((status = 200, body = ExecutionView), (status = 404, body = ErrorBody)),
)]
pub(super) async fn test_hook(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Path(id): Path<HookId>,
) -> Answer<ExecutionView> {
    let recorder = record_once(&once, StatusCode::OK, |execution: &Execution| ExecutionView::from(execution));
    Ok(Json(ExecutionView::from(&test_run::test_hook(&hooks, id, recorder).await?)))
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookExecutionList {
    executions: Vec<ExecutionView>,
    /// How many match, whatever the page.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionQuery {
    /// Only those in this state.
    #[param(inline)]
    status: Option<ExecutionStatus>,
    /// Only those since this day or time, which is in UTC unless it has an offset.
    #[param(example = "2026-01-31T09:30:00Z")]
    since: Option<String>,
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

impl Validate<Hooks> for ExecutionQuery {
    async fn validate(self, _: &Hooks) -> Vec<FieldProblem> {
        let mut problems = Problems::new();
        Timestamp::read_field("since", self.since.as_deref(), Edge::First, &mut problems);
        problems.into_result().err().unwrap_or_default()
    }
}

/// What a hook did about events, the newest first
///
/// Of a queued http hook see its deliveries.
#[utoipa::path(
    get, path = "/api/hooks/{id}/executions", tag = "hooks", params(("id" = String, Path, description = "The hook"), ExecutionQuery),
    responses((status = 200, body = HookExecutionList), (status = 404, body = ErrorBody)),
)]
pub(super) async fn list_hook_executions(
    State(hooks): State<Hooks>,
    Path(id): Path<HookId>,
    Validated(Query(query)): Validated<Query<ExecutionQuery>>,
) -> Answer<HookExecutionList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    let since = Timestamp::read_field("since", query.since.as_deref(), Edge::First, &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (executions, total) = hooks.executions(&id, query.status, since, page).await?;
    Ok(Json(HookExecutionList { executions: executions.iter().map(ExecutionView::from).collect(), total }))
}
