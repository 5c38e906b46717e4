//! What a registered tool server is, and what makes a registration valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use agentd_base::{FieldProblem, Problems, Timestamp};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::names;
use super::secrets::{self, Kind, SecretChanges, SecretWrites};

agentd_base::typed_id!(
    /// The id of a tool server.
    ToolServerId,
    "mcp"
);
agentd_store::stored_ids!(ToolServerId);

const MAX_NAME_CHARACTERS: usize = 100;
const MAX_COMMAND_BYTES: usize = 4_096;
const MAX_ARGUMENTS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 8_192;
const MAX_VARIABLES: usize = 64;
const MAX_VARIABLE_BYTES: usize = 32 * 1024;
const MAX_PATHS: usize = 32;
const MAX_URL_BYTES: usize = 2_048;
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8_192;
pub(super) const MAX_TIMEOUT_SECONDS: u32 = 3_600;
const DEFAULT_TIMEOUT_SECONDS: u32 = 60;
/// Of tools that come from elsewhere: `device_<name>_<tool>`.
const RESERVED_PREFIXES: [&str; 1] = ["device"];
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

/// How a server is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransportKind {
    /// A program that the daemon starts, over its standard streams.
    Stdio,
    /// Streamable HTTP.
    Http,
}

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

    fn blank(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Stdio => Self::Stdio(StdioReach::default()),
            TransportKind::Http => Self::Http(HttpReach::default()),
        }
    }

    pub(super) fn clear_secrets(&self) -> SecretWrites {
        match self {
            Self::Stdio(stdio) => secrets::clear_all(Kind::Environment, &stdio.env),
            Self::Http(http) => secrets::clear_all(Kind::Header, &http.headers),
        }
    }
}

/// A server that the owner registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    pub id: ToolServerId,
    pub name: String,
    /// What the names of its tools begin with; unique.
    pub prefix: String,
    pub reach: Reach,
    pub enabled: bool,
    /// Whether it is believed when it says that a tool only reads.
    pub trusted: bool,
    /// One call may take no longer.
    pub timeout_seconds: u32,
    /// The entry of the catalog that it was made from.
    pub catalog_entry: Option<String>,
    /// Counts the changes of how it is reached, secrets included.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What is wanted of a new registration, or to be changed of one.
#[derive(Debug, Clone, Default)]
pub struct ToolServerChange {
    pub name: Option<String>,
    pub transport: Option<TransportKind>,
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub env: SecretChanges,
    pub network: Option<bool>,
    pub readable_paths: Option<Vec<String>>,
    pub writable_paths: Option<Vec<String>>,
    pub url: Option<String>,
    pub headers: SecretChanges,
    pub enabled: Option<bool>,
    pub trusted: Option<bool>,
    pub timeout_seconds: Option<u32>,
}

impl ToolServer {
    /// A registration of which nothing is known yet.
    pub(super) fn blank(id: ToolServerId, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            prefix: String::new(),
            reach: Reach::Stdio(StdioReach::default()),
            enabled: true,
            trusted: false,
            timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
            catalog_entry: None,
            revision: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// Lays a change over the registration. Answers what is to become of its secrets.
    ///
    /// # Errors
    /// Every field that is wrong.
    pub(super) fn change(&mut self, change: ToolServerChange) -> Result<SecretWrites, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        if let Some(name) = &change.name {
            self.name = name.trim().to_owned();
            self.prefix = names::prefix(&self.name);
        }
        self.enabled = change.enabled.unwrap_or(self.enabled);
        self.trusted = change.trusted.unwrap_or(self.trusted);
        self.timeout_seconds = change.timeout_seconds.unwrap_or(self.timeout_seconds);
        let before = self.reach.clone();
        let mut writes = SecretWrites::new();
        if let Some(kind) = change.transport
            && kind != self.reach.kind()
        {
            writes.extend(self.reach.clear_secrets());
            self.reach = Reach::blank(kind);
        }
        match &mut self.reach {
            Reach::Stdio(stdio) => {
                refuse_other(&[("url", change.url.is_some()), ("headers", !change.headers.is_empty())], "http", &mut problems);
                writes.extend(stdio.change(change, &mut problems));
            }
            Reach::Http(http) => {
                let fields = [
                    ("command", change.command.is_some()),
                    ("args", change.args.is_some()),
                    ("env", !change.env.is_empty()),
                    ("network", change.network.is_some()),
                    ("readable_paths", change.readable_paths.is_some()),
                    ("writable_paths", change.writable_paths.is_some()),
                ];
                refuse_other(&fields, "stdio", &mut problems);
                writes.extend(http.change(change, &mut problems));
            }
        }
        if before != self.reach || !writes.is_empty() {
            self.revision += 1;
        }
        let count = self.name.chars().count();
        let is_name = (1..=MAX_NAME_CHARACTERS).contains(&count) && !self.name.chars().any(char::is_control);
        problems.require(is_name, "name", format!("must be 1 to {MAX_NAME_CHARACTERS} characters in one line"));
        let is_reserved = RESERVED_PREFIXES.contains(&self.prefix.as_str());
        problems.require(!is_reserved, "name", "is kept for tools of another kind; choose another");
        let is_time = (1..=MAX_TIMEOUT_SECONDS).contains(&self.timeout_seconds);
        problems.require(is_time, "timeout_seconds", format!("must be between 1 and {MAX_TIMEOUT_SECONDS}"));
        problems.into_result().map(|()| writes)
    }
}

/// Fields that only the other transport has.
fn refuse_other(fields: &[(&str, bool)], transport: &str, problems: &mut Problems) {
    for (field, is_given) in fields {
        problems.require(!is_given, field, format!("goes with the transport `{transport}` alone"));
    }
}

impl StdioReach {
    fn change(&mut self, change: ToolServerChange, problems: &mut Problems) -> SecretWrites {
        let before = (self.command.clone(), self.args.clone());
        if let Some(command) = change.command {
            self.command = command.trim().to_owned();
        }
        self.args = change.args.unwrap_or(std::mem::take(&mut self.args));
        self.network = change.network.unwrap_or(self.network);
        self.readable_paths = change.readable_paths.unwrap_or(std::mem::take(&mut self.readable_paths));
        self.writable_paths = change.writable_paths.unwrap_or(std::mem::take(&mut self.writable_paths));
        let has_moved = before != (self.command.clone(), self.args.clone());
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
    fn change(&mut self, change: ToolServerChange, problems: &mut Problems) -> SecretWrites {
        let before = origin(&self.url);
        if let Some(url) = change.url {
            self.url = url.trim().to_owned();
        }
        let has_moved = before != origin(&self.url);
        let writes = secrets::apply(Kind::Header, &mut self.headers, change.headers, has_moved, check_header, problems);
        problems.require(self.headers.len() <= MAX_HEADERS, "headers", format!("must be at most {MAX_HEADERS}"));
        if let Err(problem) = check_url(&self.url) {
            problems.add("url", problem);
        }
        writes
    }
}

fn origin(url: &str) -> Option<url::Origin> {
    Url::parse(url).ok().map(|url| url.origin())
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

/// What variables and headers a registration names, for who shows it.
#[must_use]
pub(in crate::skills) fn shown_names(names: &BTreeSet<String>) -> BTreeMap<String, agentd_base::SecretState> {
    names.iter().map(|name| (name.clone(), agentd_base::SecretState { set: true })).collect()
}

#[cfg(test)]
mod tests {
    use agentd_base::{Secret, SecretUpdate};

    use super::*;

    fn server() -> ToolServer {
        ToolServer::blank(ToolServerId::from("mcp_1"), Timestamp::parse("2026-01-05T09:00:00.000Z").unwrap())
    }

    fn fields(problems: Vec<FieldProblem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.field).collect()
    }

    fn stdio(command: &str) -> ToolServerChange {
        ToolServerChange {
            name: Some("Time".into()),
            transport: Some(TransportKind::Stdio),
            command: Some(command.into()),
            ..ToolServerChange::default()
        }
    }

    fn secret(text: &str) -> Option<SecretUpdate> {
        Some(SecretUpdate::New(Secret::new(text.into())))
    }

    #[test]
    fn everything_is_closed_until_it_is_opened() {
        let mut server = server();
        server.change(stdio("uvx")).unwrap();
        let Reach::Stdio(stdio) = &server.reach else { panic!("stdio") };
        assert!(!stdio.network && stdio.readable_paths.is_empty() && stdio.writable_paths.is_empty());
        assert!(server.enabled && !server.trusted);
        assert_eq!((server.prefix.as_str(), server.revision), ("time", 1));
    }

    #[test]
    fn every_bad_field_is_named_at_once() {
        let change = ToolServerChange {
            name: Some("device".into()),
            args: Some(vec!["ok".into(), "a\0b".into()]),
            env: [("1A".to_owned(), secret("x")), ("B".to_owned(), Some(SecretUpdate::Shown(agentd_base::SecretState { set: true })))].into(),
            readable_paths: Some(vec!["relative".into(), "/a/../b".into()]),
            url: Some("http://a".into()),
            timeout_seconds: Some(0),
            ..stdio("./server")
        };
        let problems = fields(server().change(change).unwrap_err());
        assert_eq!(
            problems,
            ["url", "env.1A", "env.B", "command", "args[1]", "readable_paths[0]", "readable_paths[1]", "name", "timeout_seconds"]
        );
        let http = ToolServerChange {
            name: Some("a".into()),
            transport: Some(TransportKind::Http),
            url: Some("ftp://a/".into()),
            headers: [("Host".to_owned(), secret("x")), ("x-ok".to_owned(), secret("a\nb"))].into(),
            network: Some(true),
            ..ToolServerChange::default()
        };
        assert_eq!(fields(server().change(http).unwrap_err()), ["network", "headers.host", "headers.x-ok", "url"]);
    }

    #[test]
    fn secrets_do_not_follow_to_another_program_or_host() {
        let mut server = server();
        server.change(ToolServerChange { env: [("TOKEN".to_owned(), secret("t"))].into(), ..stdio("uvx") }).unwrap();
        let leak = ToolServerChange { command: Some("env".into()), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let leak = ToolServerChange { args: Some(vec!["-v".into()]), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let harmless = ToolServerChange { network: Some(true), ..ToolServerChange::default() };
        assert!(server.change(harmless).unwrap().is_empty());

        let http = |url: &str| ToolServerChange { url: Some(url.into()), ..ToolServerChange::default() };
        let first = ToolServerChange {
            transport: Some(TransportKind::Http),
            headers: [("Authorization".to_owned(), secret("t"))].into(),
            ..http("https://one.example/mcp")
        };
        // The variable of the program goes with it.
        let writes = server.change(first).unwrap();
        assert_eq!(writes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["env.TOKEN", "header.authorization"]);
        assert!(server.change(http("https://one.example/other")).is_ok());
        assert_eq!(fields(server.change(http("https://two.example/mcp")).unwrap_err()), ["headers.authorization"]);
    }

    #[test]
    fn what_does_not_touch_the_way_to_a_server_leaves_it_running() {
        let mut server = server();
        server.change(stdio("uvx")).unwrap();
        let change = ToolServerChange {
            name: Some("Other".into()),
            trusted: Some(true),
            timeout_seconds: Some(5),
            ..ToolServerChange::default()
        };
        server.change(change).unwrap();
        assert_eq!((server.revision, server.prefix.as_str()), (1, "other"));
    }
}
