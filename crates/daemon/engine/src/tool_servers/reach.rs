//! How a server is reached, and what makes that valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use agentd_base::{FieldProblem, Problems, SecretState, SecretUpdate};
use agentd_core::vault::{SealedUrl, names_in_url, server_of};
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
/// The connection's own, or the protocol's.
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

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StdioReach {
    /// An absolute path, or a name that is looked for in the system's folders.
    pub command: String,
    pub args: Vec<String>,
    /// The names of variables; the values lie in the vault.
    pub env: BTreeSet<String>,
    /// Whether it reaches public addresses.
    pub network: bool,
    pub readable_paths: Vec<String>,
    pub writable_paths: Vec<String>,
}

/// A web service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpReach {
    /// Credentials in it lie in the vault; it says `***` there.
    pub url: String,
    /// The names of headers, in lower case; the values lie in the vault.
    pub headers: BTreeSet<String>,
}

/// How to get to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum Reach {
    Stdio(StdioReach),
    Http(HttpReach),
}

impl Reach {
    #[must_use]
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::Http(_) => TransportKind::Http,
        }
    }

    pub(super) fn blank(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Stdio => Self::Stdio(StdioReach::default()),
            TransportKind::Http => Self::Http(HttpReach::default()),
        }
    }

    /// What is wrong with the names of its variables or headers.
    pub(super) fn problems(&self) -> Vec<FieldProblem> {
        let (field, names, most) = match self {
            Self::Stdio(stdio) => ("env", &stdio.env, MAX_VARIABLES),
            Self::Http(http) => ("headers", &http.headers, MAX_HEADERS),
        };
        let check = |name: &str| match self {
            Self::Stdio(_) => check_variable(name, "value"),
            Self::Http(_) => check_header(name, "value"),
        };
        let mut problems = Problems::new();
        problems.require(names.len() <= most, field, format!("must be at most {most}"));
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

impl StdioReach {
    /// The paths that the program is given, each with its field.
    pub(super) fn paths(&self) -> impl Iterator<Item = (String, &String)> {
        let fields = [("readable_paths", &self.readable_paths), ("writable_paths", &self.writable_paths)];
        fields.into_iter().flat_map(|(field, paths)| {
            paths.iter().enumerate().map(move |(index, path)| (format!("{field}[{index}]"), path))
        })
    }

    pub(super) fn change(&mut self, change: ToolServerChange, problems: &mut Problems) -> SecretWrites {
        let before = (self.command.clone(), self.args.clone());
        let had_network = self.network;
        let could_write = self.writable_paths.clone();
        if let Some(command) = change.command {
            self.command = command.trim().to_owned();
        }
        self.args = change.args.unwrap_or(std::mem::take(&mut self.args));
        self.network = change.network.unwrap_or(self.network);
        self.readable_paths = change.readable_paths.unwrap_or(std::mem::take(&mut self.readable_paths));
        self.writable_paths = change.writable_paths.unwrap_or(std::mem::take(&mut self.writable_paths));
        // A variable may say what runs, or where the others are sent; with a network, or with a program that others may
        // write to, there is a way out that was not there before.
        let steers = change.env.iter().any(|(_, change)| matches!(change, Some(SecretUpdate::New(_))));
        let has_moved = before != (self.command.clone(), self.args.clone())
            || steers
            || (self.network && !had_network)
            || self.writable_paths.iter().any(|path| !could_write.contains(path));
        let writes = secrets::apply(Kind::Environment, &mut self.env, change.env, has_moved, check_variable, problems);
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
            "is required: the name of a program that is installed on this machine, or its absolute path; arguments go into `args`",
        );
        problems.require(self.args.len() <= MAX_ARGUMENTS, "args", format!("must be at most {MAX_ARGUMENTS}"));
        for (index, argument) in self.args.iter().enumerate() {
            let fits = argument.len() <= MAX_ARGUMENT_BYTES && !argument.contains('\0');
            let message = format!("must be at most {MAX_ARGUMENT_BYTES} bytes without NUL characters");
            problems.require(fits, &format!("args[{index}]"), message);
        }
        problems.require(self.env.len() <= MAX_VARIABLES, "env", format!("must be at most {MAX_VARIABLES}"));
        for (field, paths) in [("readable_paths", &self.readable_paths), ("writable_paths", &self.writable_paths)] {
            problems.require(paths.len() <= MAX_PATHS, field, format!("must be at most {MAX_PATHS}"));
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

impl HttpReach {
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
        let has_moved = server_of(&before) != server_of(&self.url);
        let headers = change.headers;
        let mut writes = secrets::apply(Kind::Header, &mut self.headers, headers, has_moved, check_header, problems);
        writes.extend(url_secrets);
        problems.require(self.headers.len() <= MAX_HEADERS, "headers", format!("must be at most {MAX_HEADERS}"));
        if let Err(problem) = check_url(&self.url) {
            problems.add("url", problem);
        }
        writes
    }
}

fn check_url(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > MAX_URL_BYTES {
        return Err(format!("is required: an http or https address of at most {MAX_URL_BYTES} bytes"));
    }
    let url = Url::parse(text).map_err(|error| format!("is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or password; give them as a header".to_owned());
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Option<&'static str> {
    if HeaderName::try_from(name).is_err() {
        return Some("must be the name of a header");
    }
    if FORBIDDEN_HEADERS.contains(&name) || name.starts_with("mcp-param-") {
        return Some("is set by the protocol itself");
    }
    let fits = !value.is_empty() && value.len() <= MAX_HEADER_BYTES && HeaderValue::from_str(value).is_ok();
    (!fits).then_some("must be the value of a header: 1 to 8192 bytes in one line")
}

/// What variables and headers a registration names, for who shows it; `missing` have no value.
#[must_use]
pub(crate) fn shown_names(names: &BTreeSet<String>, missing: &BTreeSet<String>) -> BTreeMap<String, SecretState> {
    names.iter().map(|name| (name.clone(), SecretState { set: !missing.contains(name) })).collect()
}
