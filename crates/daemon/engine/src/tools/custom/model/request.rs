//! The request of an `http` tool.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{Problems, Secret, SecretUpdate};
use agentd_core::vault::{SealedUrl, UnknownMask, names_in_url, require_reentry, server_origin};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;
use utoipa::ToSchema;

use crate::tools::custom::template::Template;

const MAX_URL_BYTES: usize = 4_096;
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8_192;
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "x-api-key"];
/// Set by the HTTP connection.
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

/// Changes to the secrets of a tool; `None` clears one.
pub(crate) type SecretChanges = Vec<(String, Option<Secret>)>;

/// HTTP method.
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
    /// Whether a request of this method only reads (RFC 9110, 9.2.1).
    pub(crate) fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }

    pub(crate) fn to_http(self) -> http::Method {
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

/// Stored request of an HTTP tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpToolRequest {
    pub method: HttpMethod,
    /// URL; credentials in it are stored in the vault and replaced with `***`.
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Names in lower case; the values are in the vault.
    #[serde(default)]
    pub secret_headers: BTreeSet<String>,
    #[serde(default)]
    pub body: Option<String>,
}

/// A request as submitted.
#[derive(Debug, Clone)]
pub struct HttpRequestChange {
    pub method: HttpMethod,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    /// An absent name keeps its value; `None` clears it.
    pub secret_headers: BTreeMap<String, Option<SecretUpdate>>,
    pub body: Option<String>,
    /// Handling of a `***` in the URL that has no stored value.
    pub unknown_masks: UnknownMask,
}

impl HttpRequestChange {
    pub(super) fn into_stored(
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
        // A user who may edit a tool must not obtain its secrets by redirecting them to another server.
        let is_server_changed = before.is_some_and(|before| before.changes_server(&self.url));
        let mut unconfirmed = if is_server_changed { secret_headers.clone() } else { BTreeSet::new() };
        for (name, update) in self.secret_headers {
            let field = format!("request.secret_headers.{}", name.chars().take(64).collect::<String>());
            let name = name.to_ascii_lowercase();
            match update {
                None => {
                    secret_headers.remove(&name);
                    unconfirmed.remove(&name);
                }
                Some(SecretUpdate::Shown(_)) => {
                    problems.require(secret_headers.contains(&name), &field, "has no value yet; enter one");
                }
                Some(SecretUpdate::New(secret)) => {
                    let fits = (1..=MAX_HEADER_BYTES).contains(&secret.expose().len())
                        && HeaderValue::from_str(secret.expose()).is_ok();
                    problems.require(fits, &field, "must be a valid header value of 1 to 8192 bytes");
                    secret_headers.insert(name.clone());
                    unconfirmed.remove(&name);
                    secrets.push((name, Some(secret)));
                }
            }
        }
        for name in unconfirmed {
            require_reentry(format!("request.secret_headers.{name}"), problems);
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
    /// Whether `url` has another scheme, host or port.
    pub(crate) fn changes_server(&self, url: &str) -> bool {
        let server =
            |url: &str| Template::parse(url.trim()).ok().map(|url| server_origin(&url.fill(|_| "1".to_owned())));
        server(&self.url) != server(url)
    }

    /// Returns the host of the URL as written, without credentials.
    pub(crate) fn display_host(&self) -> String {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split(['/', '?', '#', '\\']).next().unwrap_or_default().to_owned()
    }

    /// Whether a model provides a part of the request.
    pub(crate) fn has_placeholders(&self) -> bool {
        let texts = [Some(&self.url), self.body.as_ref()].into_iter().flatten().chain(self.headers.values());
        texts.into_iter().any(|text| text.contains("{{"))
    }

    /// Whether a model can influence the host; the request then has only the agent's network permissions.
    pub(crate) fn has_model_controlled_host(&self) -> bool {
        // A placeholder cannot terminate the host because its value is encoded.
        self.display_host().contains("{{")
    }

    pub(super) fn validate(&self, problems: &mut Problems) {
        if let Err(problem) = self.check_url() {
            problems.add("request.url", problem);
        }
        let count = self.headers.len() + self.secret_headers.len();
        problems.require(
            count <= MAX_HEADERS,
            "request.headers",
            format!("must have at most {MAX_HEADERS} entries, including secret_headers"),
        );
        for (name, value) in &self.headers {
            let field = format!("request.headers.{}", name.chars().take(64).collect::<String>());
            check_header_name(name, &field, problems);
            let lower = name.to_ascii_lowercase();
            if carries_credential(name) {
                problems.add(&field, "contains a credential; move it to secret_headers");
            }
            problems.require(!self.secret_headers.contains(&lower), &field, "is also in secret_headers");
            match Template::parse(value) {
                Err(problem) => problems.add(&field, problem),
                Ok(template) => {
                    let fits =
                        value.len() <= MAX_HEADER_BYTES && HeaderValue::from_str(&template.plain(&Map::new())).is_ok();
                    problems.require(fits, &field, "must be a valid header value of at most 8192 bytes");
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
        if self.has_model_controlled_host() {
            let message = "must be empty if the host has placeholders: a model could send the secrets to any server";
            problems.require(self.secret_headers.is_empty(), "request.secret_headers", message);
            let message =
                "must contain no credentials if its host has placeholders: a model could send them to any server";
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
                    problems.require(
                        is_json || !wants_json,
                        "request.body",
                        "must be valid JSON because of its content-type",
                    );
                }
            }
            let takes_body = !matches!(self.method, HttpMethod::Get | HttpMethod::Head);
            problems.require(takes_body, "request.body", "is not allowed for GET and HEAD requests");
        }
    }

    /// Returns the content type in the headers.
    pub(crate) fn content_type(&self) -> Option<String> {
        let stated = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        stated.map(|(_, value)| value.to_ascii_lowercase())
    }

    pub(super) fn check_url(&self) -> Result<(), String> {
        if self.url.len() > MAX_URL_BYTES {
            return Err(format!("must be at most {MAX_URL_BYTES} bytes"));
        }
        let template = Template::parse(&self.url)?;
        let lower = self.url.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Err("must begin with http:// or https://".to_owned());
        }
        // Placeholder value that is valid as a host, a port or a path segment.
        let numbered = template.fill(|_| "1".to_owned());
        let url = Url::parse(&numbered).map_err(|error| format!("is not valid: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user name or password; send them as a secret header".to_owned());
        }
        Ok(())
    }
}

pub(crate) fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether a header of this name contains a credential and must be stored in the vault.
#[must_use]
pub fn carries_credential(name: &str) -> bool {
    CREDENTIAL_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

pub(super) fn check_header_name(name: &str, field: &str, problems: &mut Problems) {
    let is_name = HeaderName::try_from(name).is_ok();
    problems.require(is_name, field, "must be a valid header name");
    let is_ours = FORBIDDEN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    problems.require(!is_ours, field, "is set by the HTTP client and cannot be changed");
}
