//! Bundled hooks and the catalogue of event types.

use std::collections::BTreeMap;

use agentd_core::events::{CATALOGUE, Category};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiResult, ErrorBody, IdempotencyKey, Json, OptionalJson, Path};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::fields::InstallHook;
use super::hooks::HookView;
use crate::hooks::model::{BUNDLED, BundledHook, Hook, HookType};
use crate::hooks::service::Hooks;

/// A bundled hook that can be installed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BundledHook)]
pub(super) struct BundledView {
    /// Identifier of the bundled hook, such as `task-failed-notice`.
    id: &'static str,
    /// Default name of the installed hook.
    name: &'static str,
    /// Description of what the hook does, in one sentence.
    description: &'static str,
    /// Event type that the installed hook listens to.
    event_type: &'static str,
    hook_type: HookType,
    /// Default config, to which the config of the installation is added.
    #[schema(value_type = Object)]
    config: Map<String, Value>,
    /// Filter of the installed hook; null if every event of the type matches.
    #[schema(required, value_type = Option<Object>)]
    filter_expr: Option<Value>,
    /// Python source code; null if the hook runs no code.
    #[schema(required)]
    source_code: Option<&'static str>,
    /// Config members that must be set at installation.
    required: &'static [&'static str],
    /// Number of existing hooks that were created from it.
    installed: u64,
}

impl BundledView {
    fn new(bundled: &'static BundledHook, installed: u64) -> Self {
        Self {
            id: bundled.id,
            name: bundled.name,
            description: bundled.description,
            event_type: bundled.event_type,
            hook_type: bundled.hook_type,
            config: bundled.config(),
            filter_expr: bundled.filter_expr(),
            source_code: bundled.source_code,
            required: bundled.required,
            installed,
        }
    }
}

/// All bundled hooks, in display order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BundledHookList {
    /// Bundled hooks.
    hooks: Vec<BundledView>,
    /// Number of bundled hooks.
    total: usize,
}

/// List bundled hooks
///
/// Returns the hooks that are bundled with the daemon, with the number of installed copies of each.
#[utoipa::path(get, path = "/api/hooks/bundled", tag = "hooks", responses((status = 200, body = BundledHookList)))]
pub(super) async fn list_bundled_hooks(State(hooks): State<Hooks>) -> Answer<BundledHookList> {
    let mut installed: BTreeMap<String, u64> = BTreeMap::new();
    for id in hooks.list().await?.into_iter().filter_map(|hook| hook.bundled_id) {
        *installed.entry(id).or_default() += 1;
    }
    let view = |bundled| BundledView::new(bundled, installed.get(bundled.id).copied().unwrap_or_default());
    let hooks: Vec<BundledView> = BUNDLED.iter().map(view).collect();
    Ok(Json(BundledHookList { total: hooks.len(), hooks }))
}

/// Install a bundled hook
///
/// Creates an ordinary hook from a bundled one. The config must contain every member listed as `required`.
#[utoipa::path(
    post, path = "/api/hooks/bundled/{id}/install", tag = "hooks", request_body = Option<InstallHook>,
    params(("id" = String, Path, description = "Bundled hook id, such as `task-failed-notice`"), IdempotencyKey),
    responses(
        (status = 201, body = HookView),
        (status = 404, body = ErrorBody, description = "Bundled hook not found"),
        (status = 409, body = ErrorBody, description = "The limit of 1,000 hooks is reached"),
    ),
)]
pub(super) async fn install_bundled_hook(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Path(id): Path<String>,
    OptionalJson(fields): OptionalJson<InstallHook>,
) -> ApiResult<(StatusCode, Json<HookView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |hook: &Hook| HookView::from(hook));
    let hook = hooks.install(&id, fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(HookView::from(&hook))))
}

/// Description of an event type.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventTypeView {
    /// Name of the event type, as used in `event_type` of a hook.
    name: &'static str,
    /// Category of the event type; a key of `event_types`.
    category: &'static str,
    /// Condition under which the event is emitted.
    fires: &'static str,
    /// Fields of `data`, each with an example value.
    #[schema(value_type = Object)]
    data: BTreeMap<&'static str, Value>,
}

/// Event types that hooks can listen to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventTypes {
    /// Event type names by category.
    event_types: BTreeMap<&'static str, Vec<&'static str>>,
    /// Description of each event type.
    details: Vec<EventTypeView>,
}

/// List event types
///
/// Returns the event types that hooks can listen to, with the fields of each.
#[utoipa::path(get, path = "/api/hooks/event-types", tag = "hooks", responses((status = 200, body = EventTypes)))]
pub(super) async fn list_event_types() -> Answer<EventTypes> {
    let names = |category: &Category| {
        let of_category = CATALOGUE.iter().filter(|known| known.category == *category);
        (category.as_str(), of_category.map(|known| known.name).collect())
    };
    let details = CATALOGUE.iter().map(|known| EventTypeView {
        name: known.name,
        category: known.category.as_str(),
        fires: known.fires,
        data: known
            .data
            .iter()
            .map(|field| (field.name, serde_json::from_str(field.example).unwrap_or_default()))
            .collect(),
    });
    Ok(Json(EventTypes { event_types: Category::ALL.iter().map(names).collect(), details: details.collect() }))
}
