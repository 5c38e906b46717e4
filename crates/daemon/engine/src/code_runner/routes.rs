//! `/api/sandbox/config`.

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

/// The state of the handlers.
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

/// A box that code can run in.
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

/// A tier that was tried on this machine: code in it tried to get out.
#[derive(Debug, Serialize, ToSchema)]
struct TriedTierView {
    tier: TierView,
    available: bool,
    /// What was found.
    detail: String,
    /// What would make it available.
    #[schema(required)]
    remedy: Option<String>,
}

/// Whether the kernel counts and bounds the memory of each run by a control group, buffers and files
/// in memory included. Without, the daemon counts by itself, several times a second.
#[derive(Debug, Serialize, ToSchema)]
struct ControlGroupsView {
    in_force: bool,
    /// Where they are made, or why there are none.
    detail: String,
    /// What would give them.
    #[schema(required)]
    remedy: Option<String>,
}

/// What protects this machine from code that agents run.
#[derive(Debug, Serialize, ToSchema)]
struct SandboxInForce {
    /// Null: code is refused.
    #[schema(required)]
    tier: Option<TierView>,
    reason: String,
    /// What would give a sandbox, or a better one.
    #[schema(required)]
    remedy: Option<String>,
    /// In the order in which they were tried.
    tried: Vec<TriedTierView>,
    control_groups: ControlGroupsView,
    /// Which of `writable_paths` cannot be opened now, and why. Code runs without them.
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
                in_force: state.control_groups.in_force,
                detail: state.control_groups.detail,
                remedy: state.control_groups.remedy,
            },
            path_problems: state.path_problems,
        }
    }
}

/// The sandbox's settings, and what is in force.
#[derive(Debug, Serialize, ToSchema)]
struct SandboxConfigView {
    #[serde(flatten)]
    settings: SandboxSettings,
    in_force: SandboxInForce,
}

const IN_FORCE: &str = "in_force";

/// The schema of a change: that of the settings, with what GET shows beside them.
#[derive(Debug)]
struct SandboxConfigPatch;

impl PartialSchema for SandboxConfigPatch {
    fn schema() -> RefOr<Schema> {
        let mut schema = SandboxPatch::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let description = "As GET shows it, so that its answer can be sent back; it changes nothing.";
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

/// What is wrong with folders that the change adds; those that are named already may come and go.
fn unusable_paths(state: &CodeRunnerRoutes, change: &PartialObject) -> Vec<FieldProblem> {
    let known = state.settings.section::<SandboxSettings>();
    let paths = change.0.get("writable_paths").and_then(Value::as_array).into_iter().flatten().take(MAX_ENTRIES);
    let mut problems = Vec::new();
    for (index, path) in paths.enumerate() {
        let Some(path) = path.as_str().filter(|path| !known.writable_paths.iter().any(|known| known == path)) else {
            continue;
        };
        if let Some(problem) = state.runner.path_problem(Path::new(path)) {
            let message = format!("must be a folder that exists and may be opened to code: {problem}");
            problems.push(FieldProblem { field: format!("writable_paths[{index}]"), message });
        }
    }
    problems
}

/// The sandbox's settings, what is in force, and why
///
/// A tier counts only when a trial run could not get out of it on this machine.
#[utoipa::path(get, path = "/api/sandbox/config", operation_id = "get_sandbox_config", tag = "skills",
    responses((status = 200, body = SandboxConfigView)))]
async fn get_sandbox_config(State(state): State<CodeRunnerRoutes>) -> ApiResult<Json<SandboxConfigView>> {
    view(&state).await
}

/// Change the sandbox's settings
///
/// Any fields; those left out stay. `in_force` is shown only: sent back, it is ignored. In force for
/// every run that starts from now on. The tiers are tried again, also when nothing changes: that is
/// how to find out whether a remedy helped. A new entry of `writable_paths` must be a folder that
/// exists and may be opened; one that stands there already may be gone meanwhile.
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
        // What else is wrong is worth knowing at the same time.
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
