//! Export and import of a custom tool.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::Patch;
use agentd_core::vault::UnknownMask;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::tool_servers::secrets::loses_url_secrets;
use crate::tools::{CustomTool, CustomToolChange, HttpMethod, HttpRequestChange, ToolKind};

/// Exported custom tool, without secrets.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedTool {
    /// Name, 1 to 64 characters. An import updates the tool of this name, or creates it.
    pub(super) name: String,
    /// Purpose of the tool, 1 to 4,000 characters; models select tools by it.
    description: String,
    /// JSON Schema of the tool's input.
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
    kind: ToolKind,
    /// Source code of a python or shell tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_code: Option<String>,
    /// Request of an http tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<ExportedRequest>,
    /// Time limit of a call in seconds, 1 to 3,600.
    timeout_seconds: u32,
    /// Whether the tool is enabled.
    enabled: bool,
}

/// Request of an exported http tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExportedRequest {
    method: HttpMethod,
    /// URL, with credentials replaced by `***`.
    url: String,
    /// Headers that contain no credentials, by name. Default: none.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Names of the secret headers, without values.
    #[serde(default)]
    secret_headers: BTreeSet<String>,
    /// Request body; absent if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl From<CustomTool> for ExportedTool {
    fn from(tool: CustomTool) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema.as_object().cloned().unwrap_or_default(),
            kind: tool.kind,
            source_code: tool.source_code,
            request: tool.request.map(|request| ExportedRequest {
                method: request.method,
                url: request.url,
                headers: request.headers,
                secret_headers: request.secret_headers,
                body: request.body,
            }),
            timeout_seconds: tool.timeout_seconds,
            enabled: tool.enabled,
        }
    }
}

impl ExportedTool {
    /// Converts the tool to a change of the existing tool of its name. A secret header keeps its value if the request
    /// still goes to the same host. Otherwise it is cleared, must be entered again, and is listed in the result.
    pub(super) fn change(self, before: Option<&CustomTool>) -> (CustomToolChange, BTreeSet<String>, Vec<String>) {
        let (mut names, mut dropped) = (BTreeSet::new(), Vec::new());
        let request = match self.request {
            None => Patch::Clear,
            Some(request) => {
                names = request.secret_headers;
                let had = before.map(CustomTool::secret_names).unwrap_or_default();
                let had_request = before.and_then(|before| before.request.as_ref());
                let is_server_changed = had_request.is_some_and(|before| before.changes_server(&request.url));
                let undeliverable = had.iter().filter(|name| is_server_changed && names.contains(*name));
                dropped.extend(undeliverable.map(|name| format!("custom.{}.secret_headers.{name}", self.name)));
                if had_request.is_some_and(|before| loses_url_secrets(&before.url, &request.url)) {
                    dropped.push(format!("custom.{}.url", self.name));
                }
                let cleared = had.into_iter().filter(|name| is_server_changed || !names.contains(name));
                let cleared = cleared.map(|name| (name, None));
                Patch::Set(HttpRequestChange {
                    method: request.method,
                    url: request.url,
                    headers: request.headers,
                    secret_headers: cleared.collect(),
                    body: request.body,
                    unknown_masks: UnknownMask::Leave,
                })
            }
        };
        let change = CustomToolChange {
            name: Some(self.name),
            description: Some(self.description),
            input_schema: Some(Value::Object(self.input_schema)),
            kind: Some(self.kind),
            source_code: self.source_code.map_or(Patch::Clear, Patch::Set),
            request,
            timeout_seconds: Some(self.timeout_seconds),
            enabled: Some(self.enabled),
        };
        (change, names, dropped)
    }
}
