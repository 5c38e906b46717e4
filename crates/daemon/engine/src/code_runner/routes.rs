//! Routes under `/api/sandbox/config`.

use std::path::Path;

use agentd_base::FieldProblem;
use agentd_core::settings::{PartialObject, Settings, SettingsError};
use agentd_sandbox::{MAX_ENTRIES, Tier};
use agentd_web::{ApiResult, ApiRouter, Json, Routes, routes};
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{CodeRunner, SandboxPatch, SandboxSettings, SandboxState};

/// State of the handlers.
#[derive(Debug, Clone)]
pub(super) struct CodeRunnerRoutes {
    pub(super) runner: CodeRunner,
    pub(super) settings: Settings,
}

#[must_use]
pub(super) fn routes() -> Routes<CodeRunnerRoutes> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(get_sandbox_config))
            .routes(routes!(update_sandbox_config).require_recent_password()),
    )
}

/// Isolation level of a sandbox.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TierView {
    Bubblewrap,
    Landlock,
    None,
}

impl From<Tier> for TierView {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Bubblewrap => Self::Bubblewrap,
            Tier::Landlock => Self::Landlock,
            Tier::None => Self::None,
        }
    }
}

/// Isolation level that was tested on this machine by attempts to escape from it.
#[derive(Debug, Serialize, ToSchema)]
struct TriedTierView {
    /// Tested isolation level.
    tier: TierView,
    /// Whether no escape attempt succeeded, so that the level can be used.
    available: bool,
    /// Findings of the test.
    detail: String,
    /// Steps to make it available; null if available.
    #[schema(required)]
    remedy: Option<String>,
}

/// Memory accounting by control groups, which includes buffers and in-memory files. Without control groups, the daemon
/// measures memory several times per second.
#[derive(Debug, Serialize, ToSchema)]
struct ControlGroupsView {
    /// Whether control groups are used.
    in_force: bool,
    /// Location of the control groups, or the reason why they are not used.
    detail: String,
    /// Steps to enable them; null if enabled.
    #[schema(required)]
    remedy: Option<String>,
}

/// Active sandbox for code that agents and hooks run.
#[derive(Debug, Serialize, ToSchema)]
struct SandboxInForce {
    /// Active isolation level; null if code is rejected.
    #[schema(required)]
    tier: Option<TierView>,
    /// Reason why this level is active, or why code is rejected.
    reason: String,
    /// Steps to enable a sandbox or a stronger one; null if none are necessary.
    #[schema(required)]
    remedy: Option<String>,
    /// Tested isolation levels, in test order.
    tried: Vec<TriedTierView>,
    control_groups: ControlGroupsView,
    /// Entries of `writable_paths` that are unavailable, each with its reason. Code runs without them.
    path_problems: Vec<String>,
}

impl From<SandboxState> for SandboxInForce {
    fn from(state: SandboxState) -> Self {
        let tried = |attempt: agentd_sandbox::Attempt| TriedTierView {
            tier: attempt.tier.into(),
            available: attempt.available,
            detail: attempt.detail,
            remedy: attempt.remedy,
        };
        Self {
            tier: state.tier.map(TierView::from),
            reason: state.reason,
            remedy: state.remedy,
            tried: state.attempts.into_iter().map(tried).collect(),
            control_groups: ControlGroupsView {
                in_force: state.control_groups.is_active,
                detail: state.control_groups.detail,
                remedy: state.control_groups.remedy,
            },
            path_problems: state.path_problems,
        }
    }
}

/// Sandbox settings and the active sandbox.
#[derive(Debug, Serialize, ToSchema)]
struct SandboxConfigView {
    #[serde(flatten)]
    settings: SandboxSettings,
    in_force: SandboxInForce,
}

const IN_FORCE: &str = "in_force";

/// Schema of an update: the settings plus the read-only fields of GET.
#[derive(Debug)]
struct SandboxConfigPatch;

impl PartialSchema for SandboxConfigPatch {
    fn schema() -> RefOr<Schema> {
        let mut schema = SandboxPatch::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let description = "As returned by GET, so that its response can be sent back; ignored.";
            let shown = ObjectBuilder::new().description(Some(description)).build();
            object.properties.insert(IN_FORCE.to_owned(), RefOr::T(Schema::Object(shown)));
        }
        schema
    }
}

impl ToSchema for SandboxConfigPatch {
    fn name() -> std::borrow::Cow<'static, str> {
        "SandboxConfigPatch".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        SandboxPatch::schemas(schemas);
    }
}

async fn view(state: &CodeRunnerRoutes) -> ApiResult<Json<SandboxConfigView>> {
    let settings = state.settings.get::<SandboxSettings>().await?;
    let in_force = state.runner.state().await.into();
    Ok(Json(SandboxConfigView { settings: SandboxSettings::clone(&settings), in_force }))
}

/// Returns the problems of folders that the change adds; existing entries may come and go.
fn unusable_paths(state: &CodeRunnerRoutes, change: &PartialObject) -> Vec<FieldProblem> {
    let known = state.settings.section::<SandboxSettings>();
    let paths = change.0.get("writable_paths").and_then(Value::as_array).into_iter().flatten().take(MAX_ENTRIES);
    let mut problems = Vec::new();
    for (index, path) in paths.enumerate() {
        let Some(path) = path.as_str().filter(|path| !known.writable_paths.iter().any(|known| known == path)) else {
            continue;
        };
        if let Some(problem) = state.runner.path_problem(Path::new(path)) {
            let message = format!("must be an existing folder that can be shared with code: {problem}");
            problems.push(FieldProblem { field: format!("writable_paths[{index}]"), message });
        }
    }
    problems
}

/// Get sandbox settings
///
/// Returns the settings and the active sandbox with its reason. An isolation level counts only if a test run on this
/// machine could not escape from it.
#[utoipa::path(get, path = "/api/sandbox/config", operation_id = "get_sandbox_config", tag = "skills",
    responses((status = 200, body = SandboxConfigView)))]
async fn get_sandbox_config(State(state): State<CodeRunnerRoutes>) -> ApiResult<Json<SandboxConfigView>> {
    view(&state).await
}

/// Update sandbox settings
///
/// Absent fields keep their values; `in_force` is read-only and ignored. Applies to runs that start afterwards.
/// Isolation levels are tested again, even if nothing changes. New entries of `writable_paths` must be existing folders
/// that may be opened.
#[utoipa::path(put, path = "/api/sandbox/config", operation_id = "update_sandbox_config", tag = "skills",
    request_body = SandboxConfigPatch, responses((status = 200, body = SandboxConfigView)))]
async fn update_sandbox_config(
    State(state): State<CodeRunnerRoutes>,
    Json(mut change): Json<PartialObject>,
) -> ApiResult<Json<SandboxConfigView>> {
    change.0.remove(IN_FORCE);
    state.settings.refresh().await?;
    let unusable = unusable_paths(&state, &change);
    if !unusable.is_empty() {
        // Reports all other problems together.
        let mut problems = state.settings.problems::<SandboxSettings>(change).await;
        let is_named = |field: &String| problems.iter().any(|known| known.field == *field);
        let unnamed: Vec<FieldProblem> = unusable.into_iter().filter(|problem| !is_named(&problem.field)).collect();
        problems.extend(unnamed);
        return Err(SettingsError::Invalid(problems).into());
    }
    state.settings.update::<SandboxSettings>(change).await?;
    state.runner.recheck();
    view(&state).await
}
