//! Export and import of a tool server.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::SecretUpdate;
use agentd_core::settings::{SafetyReport, SafetyScope, SafetySetting, Strength};
use agentd_core::vault::{UnknownMask, server_origin};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::tool_servers::secrets::loses_url_secrets;
use crate::tool_servers::{StdioTransport, ToolServer, ToolServerChange, Transport, TransportKind};

/// Exported tool server, without secrets.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedServer {
    /// Name, 1 to 100 characters. An import updates the server of this name, or creates it.
    pub(super) name: String,
    transport: TransportKind,
    /// stdio: program, by name or absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// stdio: arguments of the program, up to 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    /// stdio: names of environment variables, without values.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    env: BTreeSet<String>,
    /// stdio: whether the program may access public addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<bool>,
    /// stdio: absolute paths that the program may read, up to 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readable_paths: Option<Vec<String>>,
    /// stdio: absolute paths of folders that the program may modify, up to 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writable_paths: Option<Vec<String>>,
    /// http: URL of the endpoint, with credentials replaced by `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// http: names of headers, without values.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    headers: BTreeSet<String>,
    /// Whether the server is enabled.
    enabled: bool,
    /// Whether the server's read-only hints are trusted.
    trusted: bool,
    /// Time limit of one call in seconds, 1 to 3,600.
    timeout_seconds: u32,
    /// Id of the catalog entry from which it was installed; absent if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) catalog_entry: Option<String>,
}

impl From<ToolServer> for ExportedServer {
    fn from(server: ToolServer) -> Self {
        let transport = server.transport.kind();
        let (stdio, http) = match server.transport {
            Transport::Stdio(stdio) => (Some(stdio), None),
            Transport::Http(http) => (None, Some(http)),
        };
        let (url, headers) = http.map(|http| (Some(http.url), http.headers)).unwrap_or_default();
        let stdio = stdio.unwrap_or_default();
        let is_stdio = transport == TransportKind::Stdio;
        Self {
            name: server.name,
            transport,
            command: is_stdio.then_some(stdio.command),
            args: is_stdio.then_some(stdio.args),
            env: stdio.env,
            network: is_stdio.then_some(stdio.network),
            readable_paths: is_stdio.then_some(stdio.readable_paths),
            writable_paths: is_stdio.then_some(stdio.writable_paths),
            url,
            headers,
            enabled: server.enabled,
            trusted: server.trusted,
            timeout_seconds: server.timeout_seconds,
            catalog_entry: server.catalog_entry,
        }
    }
}

/// Permissions of a tool server.
const SERVER_SAFETY: [SafetySetting; 4] = [
    SafetySetting {
        path: "trusted",
        strength: Strength::LowerIsStronger,
        effect: "Tools that the server declares read-only run without approval.",
    },
    SafetySetting {
        path: "network",
        strength: Strength::LowerIsStronger,
        effect: "The tool server may access the network.",
    },
    SafetySetting {
        path: "readable_paths",
        strength: Strength::Permissions,
        effect: "The tool server may read the added folders.",
    },
    SafetySetting {
        path: "writable_paths",
        strength: Strength::Permissions,
        effect: "The tool server may modify the added folders.",
    },
];

impl ExportedServer {
    /// Determines the permissions to import; `section` names the server in the report. Permissions of the existing
    /// registration of this name apply only to the same program or server; otherwise it starts without any.
    pub(super) fn settle_permissions(
        &mut self,
        section: &str,
        before: Option<&ToolServer>,
        scope: SafetyScope,
    ) -> SafetyReport {
        let granted = before.filter(|before| self.has_same_destination(&before.transport));
        let stdio = match granted.map(|server| &server.transport) {
            Some(Transport::Stdio(stdio)) => stdio.clone(),
            _ => StdioTransport::default(),
        };
        let mut report = SafetyReport::default();
        let [trusted, network, readable, writable] = &SERVER_SAFETY;
        let mut settle =
            |setting, current: Value, imported| scope.resolve(setting, section, &current, imported, &mut report);
        let is_trusted = granted.is_some_and(|server| server.trusted);
        self.trusted = settle(trusted, json!(is_trusted), json!(self.trusted)) == json!(true);
        if self.transport == TransportKind::Stdio {
            let imported = json!(self.network.unwrap_or(stdio.network));
            self.network = Some(settle(network, json!(stdio.network), imported) == json!(true));
            for (setting, current, paths) in [
                (readable, stdio.readable_paths, &mut self.readable_paths),
                (writable, stdio.writable_paths, &mut self.writable_paths),
            ] {
                let imported = json!(paths.as_ref().unwrap_or(&current));
                *paths = serde_json::from_value(settle(setting, json!(current), imported)).ok();
            }
        }
        report
    }

    /// Whether it has the same program or server as `transport`.
    fn has_same_destination(&self, transport: &Transport) -> bool {
        match (transport, self.transport) {
            (Transport::Stdio(stdio), TransportKind::Stdio) => {
                Some(&stdio.command) == self.command.as_ref() && Some(&stdio.args) == self.args.as_ref()
            }
            (Transport::Http(http), TransportKind::Http) => {
                server_origin(&http.url) == server_origin(self.url.as_deref().unwrap_or_default())
            }
            _ => false,
        }
    }

    /// Converts the server to a change of the existing registration of its name. Values of variables and headers are
    /// kept if the destination is unchanged. Otherwise they are cleared, must be entered again, and are listed in the
    /// result.
    pub(super) fn change(self, before: Option<&Transport>) -> (ToolServerChange, BTreeSet<String>, Vec<String>) {
        let mut dropped = Vec::new();
        let (had, is_same_destination, names) = match (before, self.transport) {
            (Some(Transport::Stdio(stdio)), TransportKind::Stdio) => {
                let is_same = Some(&stdio.command) == self.command.as_ref() && Some(&stdio.args) == self.args.as_ref();
                (stdio.env.clone(), is_same, self.env)
            }
            (Some(Transport::Http(http)), TransportKind::Http) => {
                let url = self.url.as_deref().unwrap_or_default();
                if loses_url_secrets(&http.url, url) {
                    dropped.push(format!("mcp.{}.url", self.name));
                }
                (http.headers.clone(), server_origin(&http.url) == server_origin(url), self.headers)
            }
            // The transport kind changed: the secrets of the previous one are dropped.
            (Some(before), _) => {
                let (field, had) = match before {
                    Transport::Stdio(stdio) => ("env", &stdio.env),
                    Transport::Http(http) => ("headers", &http.headers),
                };
                dropped.extend(had.iter().map(|name| format!("mcp.{}.{field}.{name}", self.name)));
                let names = if self.transport == TransportKind::Stdio { self.env } else { self.headers };
                (BTreeSet::new(), true, names)
            }
            (_, TransportKind::Stdio) => (BTreeSet::new(), true, self.env),
            (_, TransportKind::Http) => (BTreeSet::new(), true, self.headers),
        };
        let field = if self.transport == TransportKind::Stdio { "env" } else { "headers" };
        let undeliverable = had.iter().filter(|name| !is_same_destination && names.contains(*name));
        dropped.extend(undeliverable.map(|name| format!("mcp.{}.{field}.{name}", self.name)));
        let cleared = had.into_iter().filter(|name| !is_same_destination || !names.contains(name));
        let cleared: BTreeMap<String, Option<SecretUpdate>> = cleared.map(|name| (name, None)).collect();
        let (env, headers) = match self.transport {
            TransportKind::Stdio => (cleared, BTreeMap::new()),
            TransportKind::Http => (BTreeMap::new(), cleared),
        };
        let change = ToolServerChange {
            name: Some(self.name),
            transport: Some(self.transport),
            command: self.command,
            args: self.args,
            env,
            network: self.network,
            readable_paths: self.readable_paths,
            writable_paths: self.writable_paths,
            url: self.url,
            unknown_masks: UnknownMask::Leave,
            headers,
            enabled: Some(self.enabled),
            trusted: Some(self.trusted),
            timeout_seconds: Some(self.timeout_seconds),
        };
        (change, names, dropped)
    }
}
