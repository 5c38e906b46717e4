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

/// Request of an http tool. `{{input.<field>}}` is replaced with an input of the model: percent-encoded in the URL,
/// escaped in a JSON body.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomToolRequest)]
pub(super) struct RequestFields {
    /// HTTP method. Default: GET.
    #[serde(default)]
    #[schema(required = false)]
    method: HttpMethod,
    /// URL, http or https, up to 4,096 bytes. A host without placeholders may be private or local. Query parameters
    /// that contain a credential are stored encrypted and returned as `***`; sending `***` back keeps the value for the
    /// same server.
    #[schema(min_length = 1, max_length = 4096)]
    url: String,
    /// Headers by name, up to 32 including `secret_headers`; values may contain placeholders. Credentials belong in
    /// `secret_headers`. Default: none.
    #[serde(default)]
    #[schema(required = false)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    #[schema(required = false, inline)]
    secret_headers: SecretHeaders,
    /// Request body, up to 65,536 bytes; may contain placeholders. Not allowed for GET and HEAD. Default: none.
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
                "Headers that contain a credential, by name; stored encrypted and never returned. An absent name or \
                 `{\"set\": true}` keeps a value; null clears it.",
            ))
            .into()
    }
}

impl ToSchema for SecretHeaders {}

/// Definition of a new custom tool.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomToolFields {
    /// Name of the tool for models, unique among all tools: 1 to 64 characters `[a-zA-Z0-9_-]`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]{1,64}$", example = "weather")]
    name: String,
    /// Purpose of the tool, 1 to 4,000 characters; models select tools by it.
    #[schema(min_length = 1, max_length = 4000)]
    description: String,
    /// JSON Schema of the tool's input, of type `object`. Default: any object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    /// Implementation of the tool.
    kind: ToolKind,
    /// Source code of a python or shell tool, up to 102,400 bytes; required for these kinds.
    #[serde(default)]
    source_code: Option<String>,
    /// Request of an http tool; required for this kind.
    #[serde(default)]
    request: Option<RequestFields>,
    /// Time limit of a call in seconds, 1 to 3,600. Code is also limited by `timeout_seconds` of the sandbox settings.
    /// Default: 30.
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
    /// Name of the tool for models, unique among all tools: 1 to 64 characters `[a-zA-Z0-9_-]`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: Option<String>,
    /// Purpose of the tool, 1 to 4,000 characters; models select tools by it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 4000)]
    description: Option<String>,
    /// JSON Schema of the tool's input, of type `object`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    /// Implementation of the tool. A change removes the source code or request of the previous kind.
    #[serde(default)]
    kind: Option<ToolKind>,
    /// Source code of a python or shell tool, up to 102,400 bytes.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    source_code: Patch<String>,
    /// Request of an http tool; replaces the whole request, except absent secret headers.
    #[serde(default)]
    #[schema(value_type = Option<RequestFields>)]
    request: Patch<RequestFields>,
    /// Time limit of a call in seconds, 1 to 3,600. Code is also limited by `timeout_seconds` of the sandbox settings.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    /// Whether the tool is enabled.
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

/// Request of an http tool. Read-only API keys see only the host of `url`, the names of `headers` and whether a `body`
/// exists, because the rest may contain tokens.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CustomToolRequestView)]
pub(super) struct RequestView {
    method: HttpMethod,
    /// URL, with credentials replaced by `***`.
    url: String,
    /// Headers that contain no credentials, by name.
    headers: BTreeMap<String, String>,
    /// Headers that contain a credential, by name, and whether each has a value.
    secret_headers: BTreeMap<String, SecretState>,
    /// Request body; null if there is none.
    #[schema(required)]
    body: Option<String>,
}

/// Custom tool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolView {
    id: CustomToolId,
    /// Name of the tool for models, unique among all tools.
    name: String,
    /// Purpose of the tool; models select tools by it.
    description: String,
    /// JSON Schema of the tool's input.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Implementation of the tool.
    kind: ToolKind,
    /// Source code of a python or shell tool; null for an http tool.
    #[schema(required)]
    source_code: Option<String>,
    /// Request of an http tool; null for other kinds.
    #[schema(required)]
    request: Option<RequestView>,
    /// Time limit of a call in seconds.
    timeout_seconds: u32,
    /// Whether the tool is enabled.
    enabled: bool,
    /// Whether the tool can run now; agents are offered only available tools.
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

/// List of custom tools.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CustomToolList {
    /// All custom tools, oldest first.
    tools: Vec<CustomToolView>,
    /// Number of tools.
    total: usize,
}

/// Confirmation that a custom tool was deleted.
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
    responses((status = 201, body = CustomToolView),
        (status = 409, body = ErrorBody, description = "The name is taken")))]
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
    params(("id" = String, Path, description = "Id of the custom tool")),
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
    params(("id" = String, Path, description = "Id of the custom tool")), request_body = CustomToolPatch,
    responses((status = 200, body = CustomToolView),
        (status = 409, body = ErrorBody, description = "The name is taken")))]
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
    params(("id" = String, Path, description = "Id of the custom tool")),
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
/// Sets the state given in the body; without a body, toggles the current state.
#[utoipa::path(post, path = "/api/settings/skills/custom/{id}/toggle", operation_id = "toggle_custom_tool",
    tag = "skills", params(("id" = String, Path, description = "Id of the custom tool"), IdempotencyKey),
    request_body = Option<ToggleTool>,
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
