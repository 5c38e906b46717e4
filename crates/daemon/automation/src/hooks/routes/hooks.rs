//! Hooks and their executions.

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

/// An action that runs when an event of one type occurs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Hook)]
pub(super) struct HookView {
    id: HookId,
    /// Display name.
    name: String,
    /// Event type that the hook listens to.
    event_type: String,
    hook_type: HookType,
    /// Whether the hook receives events. Its queued deliveries wait while it is disabled.
    enabled: bool,
    /// Reason the daemon disabled the hook; null if it did not.
    #[schema(required)]
    disabled_reason: Option<String>,
    /// `global` for the events of all agents, or `agent:<svc_name>` for those of one agent.
    scope: String,
    /// Config with defaults. `secret`, credential headers and config secrets read `{"set": …}`. Read-only keys see only
    /// the scheme and host of URLs, and only the names of headers and of values passed to code.
    #[schema(value_type = Object)]
    config: Map<String, Value>,
    /// Code of a Python hook; null for other types.
    #[schema(required)]
    source_code: Option<String>,
    /// Filter; null if every event of the type matches.
    #[schema(required, value_type = Option<Object>)]
    filter_expr: Option<Value>,
    /// Priority from -1,000 to 1,000; hooks with a higher priority start first.
    priority: i64,
    /// Labels for finding the hook.
    tags: Vec<String>,
    /// Maximum number of attempts, including the first; 1 to 100.
    max_retries: u32,
    /// Id of the bundled hook it was created from; null if it was not.
    #[schema(required)]
    bundled_id: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Hook> for HookView {
    fn from(hook: &Hook) -> Self {
        let mut config = hook.redacted_config();
        if hook.has_secret || hook.hook_type == HookType::Http {
            config.insert(SECRET.to_owned(), json!({"set": hook.is_secret_stored}));
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
    /// Hides values that may contain tokens from callers without full access: the target, the headers and the config
    /// passed to code.
    pub(super) fn redacted_for(mut self, caller: &Caller) -> Self {
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
                // Any value passed to the code may be a token.
                (HookType::Python, name, _) if name != SECRET && name != "timeout_seconds" => {
                    *value = json!("[hidden]");
                }
                (HookType::Builtin, "channel", Value::String(channel)) => {
                    *value =
                        json!(channel.parse::<Target>().map_or_else(|_| "?".to_owned(), |target| target.redacted()));
                }
                _ => {}
            }
        }
        self
    }
}

/// Execution of a hook for one event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookExecution)]
pub(super) struct ExecutionView {
    id: ExecutionId,
    hook_id: HookId,
    /// Id of the event that started the execution.
    event_id: String,
    /// Type of the event.
    event_type: String,
    status: ExecutionStatus,
    /// Number of completed attempts; 0 while running or if skipped.
    attempt_count: u32,
    /// `{result, printed}` for code, `{status}` for a request, otherwise the id of the created object; null while
    /// running.
    #[schema(required, value_type = Option<Object>)]
    output: Value,
    /// Error of the last attempt, or the reason the execution was skipped; null if there was no error.
    #[schema(required)]
    error: Option<String>,
    started_at: Timestamp,
    /// Time at which the execution ended; null while running.
    #[schema(required)]
    completed_at: Option<Timestamp>,
    /// Duration of all attempts and the delays between them, in milliseconds; null while running.
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

/// List of all hooks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookList {
    /// Hooks, oldest first.
    hooks: Vec<HookView>,
    /// Number of dead letters by hook id; hooks without dead letters are omitted.
    dead_letters: BTreeMap<String, u64>,
}

/// List hooks
///
/// Returns all hooks, oldest first, with their numbers of dead letters.
#[utoipa::path(get, path = "/api/hooks", tag = "hooks", responses((status = 200, body = HookList)))]
pub(super) async fn list_hooks(State(hooks): State<Hooks>, caller: Caller) -> Answer<HookList> {
    let dead_letters = hooks.dead_letter_counts().await?;
    let hooks = hooks.list().await?.iter().map(|hook| HookView::from(hook).redacted_for(&caller)).collect();
    Ok(Json(HookList { hooks, dead_letters }))
}

/// Create a hook
///
/// The hook receives events from this moment. An HTTP hook with `queued` delivers through a durable queue with backoff
/// and dead letters. Any other hook runs immediately in the background, as an execution.
#[utoipa::path(
    post, path = "/api/hooks", tag = "hooks", request_body = CreateHook,
    params(IdempotencyKey),
    responses(
        (status = 201, body = HookView),
        (status = 409, body = ErrorBody, description = "The limit of 1,000 hooks is reached"),
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

/// Get a hook
#[utoipa::path(
    get, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "Hook id")),
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn get_hook(State(hooks): State<Hooks>, caller: Caller, Path(id): Path<HookId>) -> Answer<HookView> {
    Ok(Json(HookView::from(&hooks.get(&id).await?).redacted_for(&caller)))
}

/// Update a hook
///
/// Changes the given fields. A hook that gets another event type, or is enabled, receives events from this moment.
#[utoipa::path(
    put, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "Hook id")), request_body = UpdateHook,
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn update_hook(
    State(hooks): State<Hooks>,
    Path(id): Path<HookId>,
    Json(fields): Json<UpdateHook>,
) -> Answer<HookView> {
    if let Some(wanted) = fields.hook_type {
        let mut problems = Problems::new();
        let has = hooks.get(&id).await?.hook_type;
        problems.require(has == wanted, "hook_type", "cannot be changed; create another hook");
        problems.into_result().map_err(ApiError::invalid)?;
    }
    Ok(Json(HookView::from(&hooks.update(id, fields.into()).await?)))
}

/// Toggle a hook
///
/// Enables a disabled hook, or disables an enabled one. Queued deliveries wait while the hook is disabled.
#[utoipa::path(
    patch, path = "/api/hooks/{id}/toggle", tag = "hooks", params(("id" = String, Path, description = "Hook id")),
    responses((status = 200, body = HookView), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn toggle_hook(State(hooks): State<Hooks>, Path(id): Path<HookId>) -> Answer<HookView> {
    Ok(Json(HookView::from(&hooks.toggle(id).await?)))
}

/// Result of deleting a hook.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeleted {
    /// Always true.
    success: bool,
}

/// Delete a hook
///
/// Dead-letters the queued deliveries of the hook, with the deletion as the reason. Requests in progress complete.
#[utoipa::path(
    delete, path = "/api/hooks/{id}", tag = "hooks", params(("id" = String, Path, description = "Hook id")),
    responses((status = 200, body = HookDeleted), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn delete_hook(State(hooks): State<Hooks>, Path(id): Path<HookId>) -> Answer<HookDeleted> {
    hooks.delete(id).await?;
    Ok(Json(HookDeleted { success: true }))
}

/// Test a hook
///
/// Runs the hook once with a synthetic event, ignoring its filter and whether it is enabled, and returns the result.
/// The action has its real effects.
#[utoipa::path(
    post, path = "/api/hooks/{id}/test", tag = "hooks",
    params(("id" = String, Path, description = "Hook id"), IdempotencyKey),
    responses((status = 200, body = ExecutionView), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn test_hook(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Path(id): Path<HookId>,
) -> Answer<ExecutionView> {
    let recorder = record_once(&once, StatusCode::OK, |execution: &Execution| ExecutionView::from(execution));
    Ok(Json(ExecutionView::from(&test_run::test_hook(&hooks, id, recorder).await?)))
}

/// Page of executions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookExecutionList {
    /// Executions of this page.
    executions: Vec<ExecutionView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionQuery {
    /// Returns only executions in this state.
    #[param(inline)]
    status: Option<ExecutionStatus>,
    /// Returns only executions that started at or after this ISO 8601 date or time, in UTC unless it has an offset.
    #[param(example = "2026-01-31T09:30:00Z")]
    since: Option<String>,
    /// Maximum number of executions to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of executions to skip. Default: 0.
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

/// List hook executions
///
/// Returns the executions of a hook, newest first. A queued HTTP hook has deliveries instead.
#[utoipa::path(
    get, path = "/api/hooks/{id}/executions", tag = "hooks", params(("id" = String, Path, description = "Hook id"), ExecutionQuery),
    responses((status = 200, body = HookExecutionList), (status = 404, body = ErrorBody, description = "Hook not found")),
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
