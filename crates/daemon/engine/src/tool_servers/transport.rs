//! Transports of tool servers and their validation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use agentd_base::{FieldProblem, Problems, SecretState, SecretUpdate};
use agentd_core::vault::{SealedUrl, names_in_url, server_origin};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use super::change::{ToolServerChange, TransportKind};
use super::secrets::{self, Kind, SecretWrites};

const MAX_COMMAND_BYTES: usize = 4_096;
const MAX_ARGUMENTS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 8_192;
const MAX_VARIABLES: usize = 64;
const MAX_VARIABLE_BYTES: usize = 32 * 1024;
const MAX_PATHS: usize = 32;
const MAX_URL_BYTES: usize = 2_048;
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8_192;
/// Headers set by the connection or the protocol.
const FORBIDDEN_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Transport over the standard streams of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StdioTransport {
    /// Absolute path, or a name that is resolved in the system's folders.
    pub command: String,
    pub args: Vec<String>,
    /// Names of environment variables; the values are in the vault.
    pub env: BTreeSet<String>,
    /// Whether the program may access public addresses.
    pub network: bool,
    pub readable_paths: Vec<String>,
    pub writable_paths: Vec<String>,
}

/// Transport over HTTP to a web service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpTransport {
    /// URL; credentials in it are stored in the vault and replaced with `***`.
    pub url: String,
    /// Names of headers, in lower case; the values are in the vault.
    pub headers: BTreeSet<String>,
}

/// Transport of a tool server with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum Transport {
    Stdio(StdioTransport),
    Http(HttpTransport),
}

impl Transport {
    #[must_use]
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::Http(_) => TransportKind::Http,
        }
    }

    pub(super) fn blank(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Stdio => Self::Stdio(StdioTransport::default()),
            TransportKind::Http => Self::Http(HttpTransport::default()),
        }
    }

    /// Returns the problems of the names of variables or headers.
    pub(super) fn problems(&self) -> Vec<FieldProblem> {
        let (field, names, max_names) = match self {
            Self::Stdio(stdio) => ("env", &stdio.env, MAX_VARIABLES),
            Self::Http(http) => ("headers", &http.headers, MAX_HEADERS),
        };
        let check = |name: &str| match self {
            Self::Stdio(_) => check_variable(name, "value"),
            Self::Http(_) => check_header(name, "value"),
        };
        let mut problems = Problems::new();
        problems.require(names.len() <= max_names, field, format!("must have at most {max_names} entries"));
        for name in names {
            if let Some(problem) = check(name) {
                problems.add(format!("{field}.{}", name.chars().take(64).collect::<String>()), problem);
            }
        }
        problems.into_result().err().unwrap_or_default()
    }

    pub(super) fn clear_secrets(&self) -> SecretWrites {
        match self {
            Self::Stdio(stdio) => secrets::clear_all(Kind::Environment, &stdio.env),
            Self::Http(http) => {
                let url = names_in_url(&http.url).into_iter().map(|name| (name, None));
                secrets::clear_all(Kind::Header, &http.headers).into_iter().chain(url).collect()
            }
        }
    }
}

impl StdioTransport {
    /// Returns the paths that the program may access, each with its field.
    pub(super) fn paths(&self) -> impl Iterator<Item = (String, &String)> {
        let fields = [("readable_paths", &self.readable_paths), ("writable_paths", &self.writable_paths)];
        fields.into_iter().flat_map(|(field, paths)| {
            paths.iter().enumerate().map(move |(index, path)| (format!("{field}[{index}]"), path))
        })
    }

    pub(super) fn change(&mut self, change: ToolServerChange, problems: &mut Problems) -> SecretWrites {
        let before = (self.command.clone(), self.args.clone());
        let had_network = self.network;
        let previously_writable = self.writable_paths.clone();
        if let Some(command) = change.command {
            self.command = command.trim().to_owned();
        }
        self.args = change.args.unwrap_or(std::mem::take(&mut self.args));
        self.network = change.network.unwrap_or(self.network);
        self.readable_paths = change.readable_paths.unwrap_or(std::mem::take(&mut self.readable_paths));
        self.writable_paths = change.writable_paths.unwrap_or(std::mem::take(&mut self.writable_paths));
        // A new variable may change what runs or where the others are sent. Network access or additional writable paths
        // may open a new way to leak the values.
        let has_new_variables = change.env.iter().any(|(_, change)| matches!(change, Some(SecretUpdate::New(_))));
        let is_destination_changed = before != (self.command.clone(), self.args.clone())
            || has_new_variables
            || (self.network && !had_network)
            || self.writable_paths.iter().any(|path| !previously_writable.contains(path));
        let writes = secrets::apply(
            Kind::Environment,
            &mut self.env,
            change.env,
            is_destination_changed,
            check_variable,
            problems,
        );
        self.validate(problems);
        writes
    }

    fn validate(&self, problems: &mut Problems) {
        let is_line = |text: &str| !text.chars().any(char::is_control);
        let is_command = (1..=MAX_COMMAND_BYTES).contains(&self.command.len())
            && is_line(&self.command)
            && (self.command.starts_with('/') || !self.command.contains('/'));
        problems.require(
            is_command,
            "command",
            "is required: the name of an installed program, or its absolute path; put arguments into `args`",
        );
        problems.require(
            self.args.len() <= MAX_ARGUMENTS,
            "args",
            format!("must have at most {MAX_ARGUMENTS} entries"),
        );
        for (index, argument) in self.args.iter().enumerate() {
            let fits = argument.len() <= MAX_ARGUMENT_BYTES && !argument.contains('\0');
            let message = format!("must be at most {MAX_ARGUMENT_BYTES} bytes without NUL characters");
            problems.require(fits, &format!("args[{index}]"), message);
        }
        problems.require(self.env.len() <= MAX_VARIABLES, "env", format!("must have at most {MAX_VARIABLES} entries"));
        for (field, paths) in [("readable_paths", &self.readable_paths), ("writable_paths", &self.writable_paths)] {
            problems.require(paths.len() <= MAX_PATHS, field, format!("must have at most {MAX_PATHS} entries"));
            for (index, path) in paths.iter().enumerate() {
                let parts = Path::new(path).components();
                let is_plain = path.len() <= MAX_COMMAND_BYTES && is_line(path) && path.starts_with('/');
                let is_plain = is_plain && parts.into_iter().all(|part| part != Component::ParentDir);
                problems.require(is_plain, &format!("{field}[{index}]"), "must be an absolute path without `..`");
            }
        }
    }
}

fn check_variable(name: &str, value: &str) -> Option<&'static str> {
    let is_name = (1..=128).contains(&name.len())
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Some("must have a name of letters, digits and underscores that does not start with a digit");
    }
    let fits = value.len() <= MAX_VARIABLE_BYTES && !value.contains('\0');
    (!fits).then_some("must be at most 32768 bytes without NUL characters")
}

impl HttpTransport {
    pub(super) fn change(&mut self, change: ToolServerChange, problems: &mut Problems) -> SecretWrites {
        let before = std::mem::take(&mut self.url);
        let given = change.url.unwrap_or_else(|| before.clone());
        let mut url_secrets = SecretWrites::new();
        match SealedUrl::new(&given, Some(&before), change.unknown_masks) {
            Ok(sealed) => (self.url, url_secrets) = (sealed.shown, sealed.secrets),
            Err(problem) => {
                problems.add("url", problem);
                self.url.clone_from(&given);
            }
        }
        let is_destination_changed = server_origin(&before) != server_origin(&self.url);
        let headers = change.headers;
        let mut writes =
            secrets::apply(Kind::Header, &mut self.headers, headers, is_destination_changed, check_header, problems);
        writes.extend(url_secrets);
        problems.require(
            self.headers.len() <= MAX_HEADERS,
            "headers",
            format!("must have at most {MAX_HEADERS} entries"),
        );
        if let Err(problem) = check_url(&self.url) {
            problems.add("url", problem);
        }
        writes
    }
}

fn check_url(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > MAX_URL_BYTES {
        return Err(format!("is required: an http or https URL of at most {MAX_URL_BYTES} bytes"));
    }
    let url = Url::parse(text).map_err(|error| format!("is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password; send them as a header".to_owned());
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Option<&'static str> {
    if HeaderName::try_from(name).is_err() {
        return Some("must be a valid header name");
    }
    if FORBIDDEN_HEADERS.contains(&name) || name.starts_with("mcp-param-") {
        return Some("is set by the protocol and cannot be changed");
    }
    let fits = !value.is_empty() && value.len() <= MAX_HEADER_BYTES && HeaderValue::from_str(value).is_ok();
    (!fits).then_some("must be a valid header value of 1 to 8192 bytes")
}

/// Returns the names of variables or headers for display; those in `missing` have no value.
#[must_use]
pub(crate) fn secret_states(names: &BTreeSet<String>, missing: &BTreeSet<String>) -> BTreeMap<String, SecretState> {
    names.iter().map(|name| (name.clone(), SecretState { set: !missing.contains(name) })).collect()
}
