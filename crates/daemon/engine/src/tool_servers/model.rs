//! Model and validation of registered tool servers.

use agentd_base::{FieldProblem, Problems, Timestamp};

use super::change::{ToolServerChange, ToolServerId};
use super::names;
use super::secrets::SecretWrites;
use super::transport::{StdioTransport, Transport};

const MAX_NAME_CHARACTERS: usize = 100;
pub(super) const MAX_TIMEOUT_SECONDS: u32 = 3_600;
const DEFAULT_TIMEOUT_SECONDS: u32 = 60;
/// Prefixes of tools from other sources: `device_<name>_<tool>`.
const RESERVED_PREFIXES: [&str; 1] = ["device"];

/// A tool server registered by the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    pub id: ToolServerId,
    pub name: String,
    /// Prefix of its tool names; unique.
    pub prefix: String,
    pub transport: Transport,
    pub enabled: bool,
    /// Whether the server's read-only hints are trusted.
    pub trusted: bool,
    /// Time limit of one call.
    pub timeout_seconds: u32,
    /// Catalog entry from which it was installed.
    pub catalog_entry: Option<String>,
    /// Number of changes to the transport, including secrets.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl ToolServer {
    /// Creates an empty registration with default values.
    pub(super) fn blank(id: ToolServerId, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            prefix: String::new(),
            transport: Transport::Stdio(StdioTransport::default()),
            enabled: true,
            trusted: false,
            timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
            catalog_entry: None,
            revision: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// Applies a change. Returns the changes to its secrets.
    ///
    /// # Errors
    /// All invalid fields.
    pub(super) fn change(&mut self, change: ToolServerChange) -> Result<SecretWrites, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        if let Some(name) = &change.name {
            self.name = name.trim().to_owned();
            self.prefix = names::prefix(&self.name);
        }
        self.enabled = change.enabled.unwrap_or(self.enabled);
        self.trusted = change.trusted.unwrap_or(self.trusted);
        self.timeout_seconds = change.timeout_seconds.unwrap_or(self.timeout_seconds);
        let before = self.transport.clone();
        let mut writes = SecretWrites::new();
        if let Some(kind) = change.transport
            && kind != self.transport.kind()
        {
            writes.extend(self.transport.clear_secrets());
            self.transport = Transport::blank(kind);
        }
        match &mut self.transport {
            Transport::Stdio(stdio) => {
                reject_other_transport(
                    &[("url", change.url.is_some()), ("headers", !change.headers.is_empty())],
                    "http",
                    &mut problems,
                );
                writes.extend(stdio.change(change, &mut problems));
            }
            Transport::Http(http) => {
                let fields = [
                    ("command", change.command.is_some()),
                    ("args", change.args.is_some()),
                    ("env", !change.env.is_empty()),
                    ("network", change.network.is_some()),
                    ("readable_paths", change.readable_paths.is_some()),
                    ("writable_paths", change.writable_paths.is_some()),
                ];
                reject_other_transport(&fields, "stdio", &mut problems);
                writes.extend(http.change(change, &mut problems));
            }
        }
        if before != self.transport || !writes.is_empty() {
            self.revision += 1;
        }
        let count = self.name.chars().count();
        let is_name = (1..=MAX_NAME_CHARACTERS).contains(&count) && !self.name.chars().any(char::is_control);
        problems.require(is_name, "name", format!("must be 1 to {MAX_NAME_CHARACTERS} characters in one line"));
        let is_reserved = RESERVED_PREFIXES.contains(&self.prefix.as_str());
        problems.require(!is_reserved, "name", "is reserved for other tools; choose another name");
        let is_time = (1..=MAX_TIMEOUT_SECONDS).contains(&self.timeout_seconds);
        problems.require(is_time, "timeout_seconds", format!("must be between 1 and {MAX_TIMEOUT_SECONDS}"));
        problems.into_result().map(|()| writes)
    }
}

/// Rejects fields that only the other transport has.
fn reject_other_transport(fields: &[(&str, bool)], transport: &str, problems: &mut Problems) {
    for (field, is_given) in fields {
        problems.require(!is_given, field, format!("is only valid with the transport `{transport}`"));
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::{Secret, SecretUpdate};

    use super::*;
    use crate::tool_servers::TransportKind;

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
    fn new_server_has_no_permissions() {
        let mut server = server();
        server.change(stdio("uvx")).unwrap();
        let Transport::Stdio(stdio) = &server.transport else { panic!("stdio") };
        assert!(!stdio.network && stdio.readable_paths.is_empty() && stdio.writable_paths.is_empty());
        assert!(server.enabled && !server.trusted);
        assert_eq!((server.prefix.as_str(), server.revision), ("time", 1));
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        let change = ToolServerChange {
            name: Some("device".into()),
            args: Some(vec!["ok".into(), "a\0b".into()]),
            env: [
                ("1A".to_owned(), secret("x")),
                ("B".to_owned(), Some(SecretUpdate::Shown(agentd_base::SecretState { set: true }))),
            ]
            .into(),
            readable_paths: Some(vec!["relative".into(), "/a/../b".into()]),
            url: Some("http://a".into()),
            timeout_seconds: Some(0),
            ..stdio("./server")
        };
        let problems = fields(server().change(change).unwrap_err());
        assert_eq!(
            problems,
            [
                "url",
                "env.1A",
                "env.B",
                "command",
                "args[1]",
                "readable_paths[0]",
                "readable_paths[1]",
                "name",
                "timeout_seconds"
            ]
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
    fn secrets_are_not_kept_for_another_program_or_host() {
        let mut server = server();
        server.change(ToolServerChange { env: [("TOKEN".to_owned(), secret("t"))].into(), ..stdio("uvx") }).unwrap();
        let leak = ToolServerChange { command: Some("env".into()), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let leak = ToolServerChange { args: Some(vec!["-v".into()]), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let leak = ToolServerChange { network: Some(true), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let leak = ToolServerChange { env: [("PROXY".to_owned(), secret("x"))].into(), ..ToolServerChange::default() };
        assert_eq!(fields(server.clone().change(leak).unwrap_err()), ["env.TOKEN"]);
        let harmless = ToolServerChange { readable_paths: Some(vec!["/srv".into()]), ..ToolServerChange::default() };
        assert!(server.change(harmless).unwrap().is_empty());

        let http = |url: &str| ToolServerChange { url: Some(url.into()), ..ToolServerChange::default() };
        let first = ToolServerChange {
            transport: Some(TransportKind::Http),
            headers: [("Authorization".to_owned(), secret("t"))].into(),
            ..http("https://one.example/mcp")
        };
        // The variable of the program is removed as well.
        let writes = server.change(first).unwrap();
        assert_eq!(
            writes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["env.TOKEN", "header.authorization"]
        );
        assert!(server.change(http("https://one.example/other")).is_ok());
        assert_eq!(fields(server.change(http("https://two.example/mcp")).unwrap_err()), ["headers.authorization"]);
    }

    #[test]
    fn unrelated_changes_keep_the_revision() {
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
