//! Routes under `/api/settings/skills/custom`.

use std::collections::BTreeMap;

use agentd_base::{FieldProblem, HIDDEN, Patch, SecretState, SecretUpdate, Timestamp};
use agentd_core::runtime::record_once;
use agentd_core::vault::{UnknownMask, server_origin};
use agentd_web::{ApiResult, Caller, ErrorBody, IdempotencyKey, Json, OptionalJson, Path, Scope, Validate, Validated};
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
use crate::tools::patch_body::{PatchBody, PatchFields};

/// The request of an HTTP tool. `{{input.<field>}}` is replaced with an input of the model: percent-encoded in the URL,
/// escaped in a JSON body.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomToolRequest)]
pub(super) struct RequestFields {
    /// HTTP method. Default: GET.
    #[serde(default)]
    #[schema(required = false)]
    method: HttpMethod,
    /// URL, http or https. A host without placeholders may be private or local. Query parameters that contain a
    /// credential are encrypted at rest and shown as `***`; sending `***` back keeps the value for the same server.
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

/// Changes to headers that contain a credential.
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

/// Definition of a new custom tool.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomToolFields {
    /// Name of the tool for models, unique over all tools: `[a-zA-Z0-9_-]{1,64}`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]{1,64}$", example = "weather")]
    name: String,
    /// Description of what the tool does; models select tools by it.
    #[schema(min_length = 1, max_length = 4000)]
    description: String,
    /// JSON Schema of type `object`. Default: any object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    kind: ToolKind,
    /// Source code of a python or shell tool.
    #[serde(default)]
    source_code: Option<String>,
    /// Request of an http tool.
    #[serde(default)]
    request: Option<RequestFields>,
    /// Time limit in seconds. Default: 30. Code is also limited by `timeout_seconds` of the sandbox.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    /// Whether the tool is enabled. Default: true.
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

/// Changes to a custom tool; absent fields keep their values.
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
    /// Replaces the whole request, except secret headers that are absent.
    #[serde(default)]
    #[schema(value_type = Option<RequestFields>)]
    request: Patch<RequestFields>,
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    #[serde(default)]
    enabled: Option<bool>,
}

impl PatchFields for UpdateCustomTool {
    const READ_ONLY: &'static [&'static str] = &["available", "problem", "created_at", "updated_at"];
}

/// Body of an update.
type CustomToolPatch = PatchBody<UpdateCustomTool>;

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

/// The request of an http tool. Read-only API keys see only the server of `url`, the names of `headers` and whether a
/// `body` exists, because the rest may contain tokens.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CustomToolRequestView)]
pub(super) struct RequestView {
    method: HttpMethod,
    url: String,
    headers: BTreeMap<String, String>,
    /// Names of the secret headers and whether each has a value.
    secret_headers: BTreeMap<String, SecretState>,
    #[schema(required)]
    body: Option<String>,
}

/// A custom tool.
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
    /// Whether the tool works now; agents are offered only available tools.
    available: bool,
    /// Reason why the tool is unavailable, with a remedy; null if available.
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
    /// Hides parts of the request that may contain tokens from read-only API keys.
    fn redacted_for(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Read
            && let Some(request) = &mut self.request
        {
            request.url = server_origin(&request.url).unwrap_or_else(|| "?".to_owned());
            request.headers.values_mut().for_each(|value| HIDDEN.clone_into(value));
            request.body.iter_mut().for_each(|body| HIDDEN.clone_into(body));
        }
        self
    }
}

/// All custom tools, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolList {
    tools: Vec<CustomToolView>,
    total: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolDeleted {
    /// Always `true`.
    deleted: bool,
}

/// List custom tools
#[utoipa::path(get, path = "/api/settings/skills/custom", operation_id = "list_custom_tools", tag = "skills",
    responses((status = 200, body = CustomToolList)))]
pub(super) async fn list_custom_tools(
    State(state): State<ToolRoutes>,
    caller: Caller,
) -> ApiResult<Json<CustomToolList>> {
    let tools = state.custom.list().await?.into_iter().map(|tool| CustomToolView::from(tool).redacted_for(&caller));
    let tools: Vec<CustomToolView> = tools.collect();
    Ok(Json(CustomToolList { total: tools.len(), tools }))
}

/// Create a custom tool
///
/// Agents are offered the tool from their next turn on.
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
    let view = move |tool: &CustomTool| CustomToolView::from(custom.to_listed(tool));
    let recorder = record_once(&once, StatusCode::CREATED, view);
    let tool = state.custom.create(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(tool.into())))
}

/// Get a custom tool
#[utoipa::path(get, path = "/api/settings/skills/custom/{id}", operation_id = "get_custom_tool", tag = "skills",
    params(("id" = String, Path, description = "The tool's id")),
    responses((status = 200, body = CustomToolView)))]
pub(super) async fn get_custom_tool(
    State(state): State<ToolRoutes>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<CustomToolView>> {
    Ok(Json(CustomToolView::from(state.custom.get(&id).await?).redacted_for(&caller)))
}

/// Update a custom tool
///
/// Absent fields keep their values; the response of GET may be sent back as a whole. Takes effect with the next turn.
/// If `url` changes to another scheme, host or port, the values of secret headers must be entered again or cleared.
#[utoipa::path(put, path = "/api/settings/skills/custom/{id}", operation_id = "update_custom_tool", tag = "skills",
    params(("id" = String, Path, description = "The tool's id")), request_body = CustomToolPatch,
    responses((status = 200, body = CustomToolView), (status = 409, body = ErrorBody, description = "The name is taken")))]
pub(super) async fn update_custom_tool(
    State(state): State<ToolRoutes>,
    Path(id): Path<String>,
    Json(fields): Json<CustomToolPatch>,
) -> ApiResult<Json<CustomToolView>> {
    let change = fields.for_id(&id)?;
    Ok(Json(state.custom.update(&id, change.into()).await?.into()))
}

/// Delete a custom tool
///
/// Deletes its secrets as well.
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

/// Enable or disable a custom tool
///
/// Sets the state of the body; without a body, toggles the current state.
#[utoipa::path(post, path = "/api/settings/skills/custom/{id}/toggle", operation_id = "toggle_custom_tool",
    tag = "skills", params(("id" = String, Path, description = "The tool's id"), IdempotencyKey),
    request_body = ToggleTool,
    responses((status = 200, body = CustomToolView)))]
pub(super) async fn toggle_custom_tool(
    State(state): State<ToolRoutes>,
    once: IdempotencyKey,
    Path(id): Path<String>,
    OptionalJson(toggle): OptionalJson<ToggleTool>,
) -> ApiResult<Json<CustomToolView>> {
    let custom = state.custom.clone();
    let view = move |tool: &CustomTool| CustomToolView::from(custom.to_listed(tool));
    let recorder = record_once(&once, StatusCode::OK, view);
    Ok(Json(state.custom.toggle(&id, toggle.enabled, recorder).await?.into()))
}
