//! Model and validation of custom tools.

mod request;

pub use request::{HttpMethod, HttpRequestChange, HttpToolRequest, carries_credential};
pub(super) use request::{SecretChanges, is_json_type};

use std::collections::BTreeSet;

use agentd_base::{FieldProblem, Patch, Problems, Timestamp};
use agentd_core::vault::names_in_url;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::tools::schema::InputSchema;

agentd_base::typed_id!(
    /// The id of a custom tool.
    CustomToolId,
    "tool"
);
agentd_store::stored_ids!(CustomToolId);

const MAX_NAME_CHARACTERS: usize = 64;
const MAX_DESCRIPTION_CHARACTERS: usize = 4_000;
/// Fits into a single argument of a program.
const MAX_SOURCE_BYTES: usize = 100 * 1024;
pub(super) const MAX_TIMEOUT_SECONDS: u32 = 3_600;
const DEFAULT_TIMEOUT_SECONDS: u32 = 30;

/// Implementation of a custom tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// `source_code` runs in the sandbox with the dict `input`. The result is the variable `result`, else the return
    /// value of `run(input)`, else the printed text.
    Python,
    /// `request` is sent with its placeholders filled in.
    Http,
    /// `source_code` runs in the sandbox as a script. It receives the input as JSON on standard input and as variables
    /// `INPUT_<NAME>`.
    Shell,
}

impl ToolKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Http => "http",
            Self::Shell => "shell",
        }
    }

    pub(crate) fn from_stored(text: &str) -> Self {
        match text {
            "http" => Self::Http,
            "shell" => Self::Shell,
            _ => Self::Python,
        }
    }
}

/// A tool defined by the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomTool {
    pub id: CustomToolId,
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub kind: ToolKind,
    /// Source code of a python or shell tool.
    pub source_code: Option<String>,
    /// Request of an http tool.
    pub request: Option<HttpToolRequest>,
    pub timeout_seconds: u32,
    pub enabled: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Fields of a new tool, or changes to an existing one.
#[derive(Debug, Clone, Default)]
pub struct CustomToolChange {
    pub name: Option<String>,
    pub description: Option<String>,
    pub input_schema: Option<Value>,
    pub kind: Option<ToolKind>,
    pub source_code: Patch<String>,
    pub request: Patch<HttpRequestChange>,
    pub timeout_seconds: Option<u32>,
    pub enabled: Option<bool>,
}

impl CustomToolChange {
    /// Returns the problems of a tool created from this change.
    pub(crate) fn problems(self) -> Vec<FieldProblem> {
        let mut tool = CustomTool::blank(CustomToolId::from("tool"), Timestamp::default());
        tool.change(self).err().unwrap_or_default()
    }
}

impl CustomTool {
    /// Creates an empty tool with default values.
    pub(super) fn blank(id: CustomToolId, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            description: String::new(),
            input_schema: serde_json::json!({"type": "object"}),
            kind: ToolKind::Python,
            source_code: None,
            request: None,
            timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
            enabled: true,
            created_at: now,
            updated_at: now,
        }
    }

    /// Applies a change. Returns the changes to its secrets: a value is stored, `None` is cleared.
    ///
    /// # Errors
    /// All invalid fields.
    pub(super) fn change(&mut self, change: CustomToolChange) -> Result<SecretChanges, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let mut secrets = SecretChanges::new();
        let before: BTreeSet<String> = self.vault_names().into_iter().collect();
        if let Some(name) = change.name {
            self.name = name.trim().to_owned();
        }
        if let Some(description) = change.description {
            self.description = description.trim().to_owned();
        }
        if let Some(schema) = change.input_schema {
            self.input_schema = schema;
        }
        self.kind = change.kind.unwrap_or(self.kind);
        self.timeout_seconds = change.timeout_seconds.unwrap_or(self.timeout_seconds);
        self.enabled = change.enabled.unwrap_or(self.enabled);
        change.source_code.apply(&mut self.source_code);
        match change.request {
            Patch::Keep => {}
            Patch::Clear => self.request = None,
            Patch::Set(request) => {
                let had = self.request.take();
                self.request = Some(request.into_stored(had.as_ref(), &mut secrets, &mut problems));
            }
        }
        // A change of the kind removes fields of the other kind.
        match self.kind {
            ToolKind::Http => self.source_code = None,
            ToolKind::Python | ToolKind::Shell => self.request = None,
        }
        let after = self.vault_names();
        secrets.extend(before.into_iter().filter(|name| !after.contains(name)).map(|name| (name, None)));
        self.validate(&mut problems);
        problems.into_result().map(|()| secrets)
    }

    /// Returns the names of headers whose values are in the vault.
    pub(crate) fn secret_names(&self) -> Vec<String> {
        self.request.iter().flat_map(|request| request.secret_headers.iter().cloned()).collect()
    }

    /// Returns the names of all secrets of the tool in the vault.
    pub(crate) fn vault_names(&self) -> Vec<String> {
        let in_url = self.request.iter().flat_map(|request| names_in_url(&request.url));
        self.secret_names().into_iter().chain(in_url).collect()
    }

    fn validate(&self, problems: &mut Problems) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let (name, description) = (&self.name, &self.description);
        let is_name = (1..=MAX_NAME_CHARACTERS).contains(&name.len()) && name.bytes().all(is_plain);
        problems.require(is_name, "name", "must be 1 to 64 letters, digits, `_` or `-`");
        problems.require(
            (1..=MAX_DESCRIPTION_CHARACTERS).contains(&description.chars().count()),
            "description",
            format!(
                "must describe the tool in 1 to {MAX_DESCRIPTION_CHARACTERS} characters; models select tools by it"
            ),
        );
        if let Err(problem) = InputSchema::new(self.input_schema.clone()) {
            problems.add("input_schema", problem);
        }
        let is_time = (1..=MAX_TIMEOUT_SECONDS).contains(&self.timeout_seconds);
        problems.require(is_time, "timeout_seconds", format!("must be between 1 and {MAX_TIMEOUT_SECONDS}"));
        match self.kind {
            ToolKind::Python | ToolKind::Shell => match &self.source_code {
                None => problems.add("source_code", format!("is required for a {} tool", self.kind.as_str())),
                Some(source) => {
                    let fits = source.len() <= MAX_SOURCE_BYTES && !source.trim().is_empty() && !source.contains('\0');
                    let message = format!("must be 1 to {MAX_SOURCE_BYTES} bytes without NUL characters");
                    problems.require(fits, "source_code", message);
                }
            },
            ToolKind::Http => match &self.request {
                None => problems.add("request", "is required for an http tool"),
                Some(request) => request.validate(problems),
            },
        }
    }
}
