//! `/api/settings/skills/custom`.

use std::collections::BTreeMap;

use agentd_base::{FieldProblem, HIDDEN, Patch, SecretState, SecretUpdate, Timestamp};
use agentd_core::runtime::record_once;
use agentd_core::vault::{UnknownMask, server_of};
use agentd_web::{ApiResult, Caller, ErrorBody, IdempotencyKey, Json, JsonOrNothing, Path, Scope, Validate, Validated};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::state::{ToggleTool, ToolRoutes};
use crate::tools::custom::{
    CustomTool, CustomToolChange, CustomToolId, HttpMethod, HttpRequestChange, ListedTool, ToolKind,
};
use crate::tools::sent_back::{Change, SentBack};

/// The request that an http tool sends. `{{input.<field>}}` stands for what a model wrote: encoded
/// in the URL, escaped in a JSON body.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomToolRequest)]
pub(super) struct RequestFields {
    /// Left out: GET.
    #[serde(default)]
    #[schema(required = false)]
    method: HttpMethod,
    /// http or https. Where the host has no placeholders, it may be private or on this machine. Parameters of its query
    /// that carry a credential are encrypted at rest and shown as `***`, which sent back keeps them on the same server.
    #[schema(min_length = 1, max_length = 4096)]
    url: String,
    #[serde(default)]
    #[schema(required = false)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    #[schema(required = false, inline)]
    secret_headers: SecretHeaders,
    #[serde(default)]
    #[schema(max_length = 65536)]
    body: Option<String>,
}

impl From<RequestFields> for HttpRequestChange {
    fn from(fields: RequestFields) -> Self {
        let RequestFields { method, url, headers, secret_headers, body } = fields;
        Self { method, url, headers, secret_headers: secret_headers.0, body, unknown_masks: UnknownMask::Refuse }
    }
}

/// What becomes of each header that carries a credential.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
struct SecretHeaders(BTreeMap<String, Option<SecretUpdate>>);

impl PartialSchema for SecretHeaders {
    fn schema() -> RefOr<Schema> {
        let value = OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::Null))
            .item(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some(8192))
                    .write_only(true),
            )
            .item(SecretState::schema());
        let value = RefOr::T(Schema::OneOf(value.build()));
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(AdditionalProperties::RefOr(value)))
            .description(Some(
                "Headers that carry a credential: encrypted at rest and never shown again. `{\"set\": true}`, or a name that \
                 is left out, keeps a value; null clears it.",
            ))
            .into()
    }
}

impl ToSchema for SecretHeaders {}

/// What a custom tool is made from.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomToolFields {
    /// What models call it, unique over all tools: `[a-zA-Z0-9_-]{1,64}`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]{1,64}$", example = "weather")]
    name: String,
    /// What it does; models choose by it.
    #[schema(min_length = 1, max_length = 4000)]
    description: String,
    /// A JSON Schema of type `object`; left out: any object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    kind: ToolKind,
    /// Of a python or shell tool.
    #[serde(default)]
    source_code: Option<String>,
    /// Of an http tool.
    #[serde(default)]
    request: Option<RequestFields>,
    /// Default 30. Code also ends at the `timeout_seconds` of the sandbox.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    /// Default true.
    #[serde(default)]
    enabled: Option<bool>,
}

impl From<CustomToolFields> for CustomToolChange {
    fn from(fields: CustomToolFields) -> Self {
        Self {
            name: Some(fields.name),
            description: Some(fields.description),
            input_schema: fields.input_schema,
            kind: Some(fields.kind),
            source_code: fields.source_code.map_or(Patch::Keep, Patch::Set),
            request: fields.request.map_or(Patch::Keep, |request| Patch::Set(request.into())),
            timeout_seconds: fields.timeout_seconds,
            enabled: fields.enabled,
        }
    }
}

impl Validate<ToolRoutes> for CustomToolFields {
    const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = &[("kind", &["source_code", "request"])];

    async fn validate(self, _: &ToolRoutes) -> Vec<FieldProblem> {
        CustomToolChange::from(self).problems()
    }
}

/// What is to be changed of a custom tool; what is left out stays.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateCustomTool {
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: Option<String>,
    #[serde(default)]
    #[schema(min_length = 1, max_length = 4000)]
    description: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    #[serde(default)]
    kind: Option<ToolKind>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    source_code: Patch<String>,
    /// Replaces the whole request, but for secret headers that it leaves out.
    #[serde(default)]
    #[schema(value_type = Option<RequestFields>)]
    request: Patch<RequestFields>,
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    #[serde(default)]
    enabled: Option<bool>,
}

impl Change for UpdateCustomTool {
    const SHOWN: &'static [&'static str] = &["available", "problem", "created_at", "updated_at"];
}

/// The body of a change.
type CustomToolPatch = SentBack<UpdateCustomTool>;

impl From<UpdateCustomTool> for CustomToolChange {
    fn from(fields: UpdateCustomTool) -> Self {
        Self {
            name: fields.name,
            description: fields.description,
            input_schema: fields.input_schema,
            kind: fields.kind,
            source_code: fields.source_code,
            request: match fields.request {
                Patch::Keep => Patch::Keep,
                Patch::Clear => Patch::Clear,
                Patch::Set(request) => Patch::Set(request.into()),
            },
            timeout_seconds: fields.timeout_seconds,
            enabled: fields.enabled,
        }
    }
}

/// The request of an http tool. To a key that may only read, `url` shows its server alone, `headers` their names, and
/// `body` whether there is one: the rest may hold tokens.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CustomToolRequestView)]
pub(super) struct RequestView {
    method: HttpMethod,
    url: String,
    headers: BTreeMap<String, String>,
    /// Never their values.
    secret_headers: BTreeMap<String, SecretState>,
    #[schema(required)]
    body: Option<String>,
}

/// A tool that the owner made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolView {
    id: CustomToolId,
    name: String,
    description: String,
    #[schema(value_type = Object)]
    input_schema: Value,
    kind: ToolKind,
    #[schema(required)]
    source_code: Option<String>,
    #[schema(required)]
    request: Option<RequestView>,
    timeout_seconds: u32,
    enabled: bool,
    /// Whether it can work now; agents are offered only what can.
    available: bool,
    /// Why it cannot, and what would change that.
    #[schema(required)]
    problem: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<ListedTool> for CustomToolView {
    fn from(listed: ListedTool) -> Self {
        let tool: CustomTool = CustomTool::clone(&listed.tool);
        Self {
            id: tool.id,
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
            kind: tool.kind,
            source_code: tool.source_code,
            request: tool.request.map(|request| RequestView {
                method: request.method,
                url: request.url,
                headers: request.headers,
                secret_headers: request
                    .secret_headers
                    .into_iter()
                    .map(|name| (name.clone(), SecretState { set: !listed.missing.contains(&name) }))
                    .collect(),
                body: request.body,
            }),
            timeout_seconds: tool.timeout_seconds,
            enabled: tool.enabled,
            available: listed.problem.is_none(),
            problem: listed.problem,
            created_at: tool.created_at,
            updated_at: tool.updated_at,
        }
    }
}

impl CustomToolView {
    /// As the caller may see it: paths, queries, headers and bodies may hold tokens.
    fn shown_to(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Read
            && let Some(request) = &mut self.request
        {
            request.url = server_of(&request.url).unwrap_or_else(|| "?".to_owned());
            request.headers.values_mut().for_each(|value| HIDDEN.clone_into(value));
            request.body.iter_mut().for_each(|body| HIDDEN.clone_into(body));
        }
        self
    }
}

/// Every custom tool, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolList {
    tools: Vec<CustomToolView>,
    total: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolDeleted {
    /// Always true.
    deleted: bool,
}

/// Every custom tool, oldest first
#[utoipa::path(get, path = "/api/settings/skills/custom", operation_id = "list_custom_tools", tag = "skills",
    responses((status = 200, body = CustomToolList)))]
pub(super) async fn list_custom_tools(
    State(state): State<ToolRoutes>,
    caller: Caller,
) -> ApiResult<Json<CustomToolList>> {
    let tools = state.custom.list().await?.into_iter().map(|tool| CustomToolView::from(tool).shown_to(&caller));
    let tools: Vec<CustomToolView> = tools.collect();
    Ok(Json(CustomToolList { total: tools.len(), tools }))
}

/// Make a custom tool
///
/// It is offered to agents from their next turn on.
#[utoipa::path(post, path = "/api/settings/skills/custom", operation_id = "create_custom_tool", tag = "skills",
    request_body = CustomToolFields,
    params(IdempotencyKey),
    responses((status = 201, body = CustomToolView), (status = 409, body = ErrorBody, description = "The name is taken")))]
pub(super) async fn create_custom_tool(
    State(state): State<ToolRoutes>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<CustomToolFields>>,
) -> ApiResult<(StatusCode, Json<CustomToolView>)> {
    let custom = state.custom.clone();
    let view = move |tool: &CustomTool| CustomToolView::from(custom.unchecked(tool));
    let recorder = record_once(&once, StatusCode::CREATED, view);
    let tool = state.custom.create(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(tool.into())))
}

/// One custom tool
#[utoipa::path(get, path = "/api/settings/skills/custom/{id}", operation_id = "get_custom_tool", tag = "skills",
    params(("id" = String, Path, description = "The tool's id")),
    responses((status = 200, body = CustomToolView)))]
pub(super) async fn get_custom_tool(
    State(state): State<ToolRoutes>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<CustomToolView>> {
    Ok(Json(CustomToolView::from(state.custom.get(&id).await?).shown_to(&caller)))
}

/// Change a custom tool
///
/// What is left out stays, and what GET shows may be sent back whole. In force from the next turn on. Values of secret headers go to no other scheme, host or
/// port: with such a change of `url` they must be entered again, or cleared.
#[utoipa::path(put, path = "/api/settings/skills/custom/{id}", operation_id = "update_custom_tool", tag = "skills",
    params(("id" = String, Path, description = "The tool's id")), request_body = CustomToolPatch,
    responses((status = 200, body = CustomToolView), (status = 409, body = ErrorBody, description = "The name is taken")))]
pub(super) async fn update_custom_tool(
    State(state): State<ToolRoutes>,
    Path(id): Path<String>,
    Json(fields): Json<CustomToolPatch>,
) -> ApiResult<Json<CustomToolView>> {
    let change = fields.of(&id)?;
    Ok(Json(state.custom.update(&id, change.into()).await?.into()))
}

/// Delete a custom tool and its secrets
#[utoipa::path(delete, path = "/api/settings/skills/custom/{id}", operation_id = "delete_custom_tool", tag = "skills",
    params(("id" = String, Path, description = "The tool's id")),
    responses((status = 200, body = CustomToolDeleted)))]
pub(super) async fn delete_custom_tool(
    State(state): State<ToolRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<CustomToolDeleted>> {
    state.custom.delete(&id).await?;
    Ok(Json(CustomToolDeleted { deleted: true }))
}

/// Switch a custom tool off, or on again
///
/// To what the body says; without one, to what it is not.
#[utoipa::path(post, path = "/api/settings/skills/custom/{id}/toggle", operation_id = "toggle_custom_tool",
    tag = "skills", params(("id" = String, Path, description = "The tool's id"), IdempotencyKey),
    request_body = ToggleTool,
    responses((status = 200, body = CustomToolView)))]
pub(super) async fn toggle_custom_tool(
    State(state): State<ToolRoutes>,
    once: IdempotencyKey,
    Path(id): Path<String>,
    JsonOrNothing(toggle): JsonOrNothing<ToggleTool>,
) -> ApiResult<Json<CustomToolView>> {
    let custom = state.custom.clone();
    let view = move |tool: &CustomTool| CustomToolView::from(custom.unchecked(tool));
    let recorder = record_once(&once, StatusCode::OK, view);
    Ok(Json(state.custom.toggle(&id, toggle.enabled, recorder).await?.into()))
}
