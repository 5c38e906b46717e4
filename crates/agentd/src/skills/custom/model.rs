//! What a custom tool is, and what makes one valid.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{FieldProblem, Patch, Problems, Secret, SecretUpdate, Timestamp};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;
use utoipa::ToSchema;

use super::template::Template;
use crate::settings::{SealedUrl, UnknownMask, names_in_url, require_again, server_of};
use crate::skills::schema::InputSchema;

agentd_base::typed_id!(
    /// The id of a custom tool.
    CustomToolId,
    "tool"
);
agentd_store::stored_ids!(CustomToolId);

const MAX_NAME_CHARACTERS: usize = 64;
const MAX_DESCRIPTION_CHARACTERS: usize = 4_000;
/// Also what fits into one argument of a program.
const MAX_SOURCE_BYTES: usize = 100 * 1024;
const MAX_URL_BYTES: usize = 4_096;
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8_192;
pub(super) const MAX_TIMEOUT_SECONDS: u32 = 3_600;
const DEFAULT_TIMEOUT_SECONDS: u32 = 30;
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "x-api-key"];
/// Theirs is the connection's, not a caller's.
const FORBIDDEN_HEADERS: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a tool is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// `source_code` runs in the sandbox with the dict `input`; the answer is `result`, or what
    /// `run(input)` returns, or else what was printed.
    Python,
    /// `request` is sent, its placeholders filled.
    Http,
    /// `source_code` runs in the sandbox as a script, with the input as JSON on its standard input
    /// and as variables `INPUT_<NAME>`.
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

    pub(in crate::skills) fn from_stored(text: &str) -> Self {
        match text {
            "http" => Self::Http,
            "shell" => Self::Shell,
            _ => Self::Python,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl HttpMethod {
    pub(super) fn to_http(self) -> http::Method {
        match self {
            Self::Get => http::Method::GET,
            Self::Head => http::Method::HEAD,
            Self::Post => http::Method::POST,
            Self::Put => http::Method::PUT,
            Self::Patch => http::Method::PATCH,
            Self::Delete => http::Method::DELETE,
        }
    }
}

/// The request of an HTTP tool, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpToolRequest {
    pub method: HttpMethod,
    /// Credentials in it lie in the vault; it says `***` there.
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The names, in lower case; the values lie in the vault.
    #[serde(default)]
    pub secret_headers: BTreeSet<String>,
    #[serde(default)]
    pub body: Option<String>,
}

/// A request as it comes in.
#[derive(Debug, Clone)]
pub struct HttpRequestChange {
    pub method: HttpMethod,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    /// A name that is left out keeps its value; null clears it.
    pub secret_headers: BTreeMap<String, Option<SecretUpdate>>,
    pub body: Option<String>,
    /// What becomes of a `***` in the url that stands for no value.
    pub unknown_masks: UnknownMask,
}

/// A tool that the owner made.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomTool {
    pub id: CustomToolId,
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub kind: ToolKind,
    /// Of a python or shell tool.
    pub source_code: Option<String>,
    /// Of an http tool.
    pub request: Option<HttpToolRequest>,
    pub timeout_seconds: u32,
    pub enabled: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What is wanted of a new tool, or to be changed of one.
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

/// What becomes of the secrets of a tool.
pub(super) type SecretChanges = Vec<(String, Option<Secret>)>;

impl CustomToolChange {
    /// What is wrong with a tool that is made from it.
    pub(in crate::skills) fn problems(self) -> Vec<FieldProblem> {
        let mut tool = CustomTool::blank(CustomToolId::from("tool"), Timestamp::default());
        tool.change(self).err().unwrap_or_default()
    }
}

impl CustomTool {
    /// A tool of which nothing is known yet.
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

    /// Lays a change over the tool. Answers what is to become of its secrets: a value is put, none
    /// is cleared.
    ///
    /// # Errors
    /// Every field that is wrong.
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
        // A kind that is changed takes along what only the other kind has.
        match self.kind {
            ToolKind::Http => self.source_code = None,
            ToolKind::Python | ToolKind::Shell => self.request = None,
        }
        let after = self.vault_names();
        secrets.extend(before.into_iter().filter(|name| !after.contains(name)).map(|name| (name, None)));
        self.validate(&mut problems);
        problems.into_result().map(|()| secrets)
    }

    /// The headers whose values lie in the vault.
    pub(in crate::skills) fn secret_names(&self) -> Vec<String> {
        self.request.iter().flat_map(|request| request.secret_headers.iter().cloned()).collect()
    }

    /// The names of everything that the vault keeps of it.
    pub(in crate::skills) fn vault_names(&self) -> Vec<String> {
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
            format!("must say in 1 to {MAX_DESCRIPTION_CHARACTERS} characters what the tool does; models choose by it"),
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

impl HttpRequestChange {
    fn into_stored(
        self,
        before: Option<&HttpToolRequest>,
        secrets: &mut SecretChanges,
        problems: &mut Problems,
    ) -> HttpToolRequest {
        let mut secret_headers = before.map(|before| before.secret_headers.clone()).unwrap_or_default();
        let had_url = before.map(|before| before.url.as_str());
        let url = match SealedUrl::new(&self.url, had_url, self.unknown_masks) {
            Ok(sealed) => {
                secrets.extend(sealed.secrets);
                sealed.shown
            }
            Err(problem) => {
                problems.add("request.url", problem);
                self.url.trim().to_owned()
            }
        };
        // Who may change a tool may not read its secrets by leading them to himself.
        let has_moved = before.is_some_and(|before| before.leads_elsewhere(&self.url));
        let mut unconfirmed = if has_moved { secret_headers.clone() } else { BTreeSet::new() };
        for (name, update) in self.secret_headers {
            let field = format!("request.secret_headers.{}", name.chars().take(64).collect::<String>());
            let name = name.to_ascii_lowercase();
            match update {
                None => {
                    secret_headers.remove(&name);
                    unconfirmed.remove(&name);
                }
                Some(SecretUpdate::Shown(_)) => {
                    problems.require(secret_headers.contains(&name), &field, "has no value yet; give it one");
                }
                Some(SecretUpdate::New(secret)) => {
                    let fits = (1..=MAX_HEADER_BYTES).contains(&secret.expose().len())
                        && HeaderValue::from_str(secret.expose()).is_ok();
                    problems.require(fits, &field, "must be the value of a header: 1 to 8192 bytes in one line");
                    secret_headers.insert(name.clone());
                    unconfirmed.remove(&name);
                    secrets.push((name, Some(secret)));
                }
            }
        }
        for name in unconfirmed {
            require_again(format!("request.secret_headers.{name}"), problems);
        }
        HttpToolRequest {
            method: self.method,
            url,
            headers: self.headers,
            secret_headers,
            body: self.body.filter(|body| !body.is_empty()),
        }
    }
}

impl HttpToolRequest {
    /// Whether `url` names another scheme, host or port.
    pub(in crate::skills) fn leads_elsewhere(&self, url: &str) -> bool {
        let server = |url: &str| Template::parse(url.trim()).ok().map(|url| server_of(&url.fill(|_| "1".to_owned())));
        server(&self.url) != server(url)
    }

    /// Whether a model chooses the host; then it is an agent's request and not the owner's.
    pub(super) fn has_steered_host(&self) -> bool {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        // Up to where the path begins. A placeholder cannot end the host: its value is encoded.
        rest.split(['/', '?', '#', '\\']).next().unwrap_or_default().contains("{{")
    }

    fn validate(&self, problems: &mut Problems) {
        if let Err(problem) = self.check_url() {
            problems.add("request.url", problem);
        }
        let count = self.headers.len() + self.secret_headers.len();
        problems.require(count <= MAX_HEADERS, "request.headers", format!("must be at most {MAX_HEADERS} in all"));
        for (name, value) in &self.headers {
            let field = format!("request.headers.{}", name.chars().take(64).collect::<String>());
            check_header_name(name, &field, problems);
            let lower = name.to_ascii_lowercase();
            if carries_credential(name) {
                problems.add(&field, "carries a credential; give it under secret_headers");
            }
            problems.require(!self.secret_headers.contains(&lower), &field, "stands under secret_headers too");
            match Template::parse(value) {
                Err(problem) => problems.add(&field, problem),
                Ok(template) => {
                    let fits =
                        value.len() <= MAX_HEADER_BYTES && HeaderValue::from_str(&template.plain(&Map::new())).is_ok();
                    problems.require(fits, &field, "must be the value of a header: at most 8192 bytes in one line");
                }
            }
        }
        for name in &self.secret_headers {
            check_header_name(
                name,
                &format!("request.secret_headers.{}", name.chars().take(64).collect::<String>()),
                problems,
            );
        }
        if self.has_steered_host() {
            let message = "must be empty when the host has placeholders: a model could send the secrets anywhere";
            problems.require(self.secret_headers.is_empty(), "request.secret_headers", message);
            let message = "must hold no credentials when its host has placeholders: a model could send them anywhere";
            problems.require(names_in_url(&self.url).is_empty(), "request.url", message);
        }
        if let Some(body) = &self.body {
            problems.require(
                body.len() <= MAX_BODY_BYTES,
                "request.body",
                format!("must be at most {MAX_BODY_BYTES} bytes"),
            );
            match Template::parse(body) {
                Err(problem) => problems.add("request.body", problem),
                Ok(template) => {
                    let is_json = serde_json::from_str::<Value>(&template.json(&Map::new())).is_ok();
                    let wants_json = self.content_type().is_some_and(|stated| is_json_type(&stated));
                    problems.require(is_json || !wants_json, "request.body", "is not JSON, as its content-type says");
                }
            }
            let takes_body = !matches!(self.method, HttpMethod::Get | HttpMethod::Head);
            problems.require(takes_body, "request.body", "goes with no GET or HEAD request");
        }
    }

    /// What the headers say of the body.
    pub(super) fn content_type(&self) -> Option<String> {
        let stated = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        stated.map(|(_, value)| value.to_ascii_lowercase())
    }

    fn check_url(&self) -> Result<(), String> {
        if self.url.len() > MAX_URL_BYTES {
            return Err(format!("must be at most {MAX_URL_BYTES} bytes"));
        }
        let template = Template::parse(&self.url)?;
        let lower = self.url.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Err("must begin with http:// or https://".to_owned());
        }
        // Stands for any value: a host, a port, a part of a path.
        let numbered = template.fill(|_| "1".to_owned());
        let url = Url::parse(&numbered).map_err(|error| format!("is not valid: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not hold a user or password; give them as a secret header".to_owned());
        }
        Ok(())
    }
}

pub(super) fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether a header of this name carries a credential, which belongs into the vault.
#[must_use]
pub fn carries_credential(name: &str) -> bool {
    CREDENTIAL_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn check_header_name(name: &str, field: &str, problems: &mut Problems) {
    let is_name = HeaderName::try_from(name).is_ok();
    problems.require(is_name, field, "must be the name of a header");
    let is_ours = FORBIDDEN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    problems.require(!is_ours, field, "is set by the connection itself");
}
