//! A tool server in an export.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::SecretUpdate;
use agentd_core::settings::{SafetyReport, SafetyScope, SafetySetting, Strength};
use agentd_core::vault::{UnknownMask, server_of};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::tool_servers::secrets::loses_url_secrets;
use crate::tool_servers::{Reach, StdioReach, ToolServer, ToolServerChange, TransportKind};

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedServer {
    pub(super) name: String,
    transport: TransportKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    /// The names alone, as of `headers`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    env: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readable_paths: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    writable_paths: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    headers: BTreeSet<String>,
    enabled: bool,
    trusted: bool,
    timeout_seconds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) catalog_entry: Option<String>,
}

impl From<ToolServer> for ExportedServer {
    fn from(server: ToolServer) -> Self {
        let transport = server.reach.kind();
        let (stdio, http) = match server.reach {
            Reach::Stdio(stdio) => (Some(stdio), None),
            Reach::Http(http) => (None, Some(http)),
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

/// What a tool server may do beyond answering calls.
const SERVER_SAFETY: [SafetySetting; 4] = [
    SafetySetting {
        path: "trusted",
        strength: Strength::LowerIsStronger,
        effect: "Its tools run without approval where it says that they only read.",
    },
    SafetySetting {
        path: "network",
        strength: Strength::LowerIsStronger,
        effect: "The tool server may reach the network.",
    },
    SafetySetting {
        path: "readable_paths",
        strength: Strength::Permissions,
        effect: "The tool server may read the added folders.",
    },
    SafetySetting {
        path: "writable_paths",
        strength: Strength::Permissions,
        effect: "The tool server may change the added folders.",
    },
];

impl ExportedServer {
    /// Settles its permissions; `section` names it in the report. Those of the registration with its name apply only
    /// to the same program or server; another one starts without any.
    pub(super) fn settle(&mut self, section: &str, before: Option<&ToolServer>, scope: SafetyScope) -> SafetyReport {
        let granted = before.filter(|before| self.leads_to(&before.reach));
        let stdio = match granted.map(|server| &server.reach) {
            Some(Reach::Stdio(stdio)) => stdio.clone(),
            _ => StdioReach::default(),
        };
        let mut report = SafetyReport::default();
        let [trusted, network, readable, writable] = &SERVER_SAFETY;
        let mut settle =
            |setting, current: Value, imported| scope.settle(setting, section, &current, imported, &mut report);
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

    /// Whether it is the program or the server that `reach` leads to.
    fn leads_to(&self, reach: &Reach) -> bool {
        match (reach, self.transport) {
            (Reach::Stdio(stdio), TransportKind::Stdio) => {
                Some(&stdio.command) == self.command.as_ref() && Some(&stdio.args) == self.args.as_ref()
            }
            (Reach::Http(http), TransportKind::Http) => {
                server_of(&http.url) == server_of(self.url.as_deref().unwrap_or_default())
            }
            _ => false,
        }
    }

    /// As a change of the registration that has the name here. Values of variables and headers stay where the
    /// registration still leads to the same place; else they are cleared and wait to be entered again, and are named.
    pub(super) fn change(self, before: Option<&Reach>) -> (ToolServerChange, BTreeSet<String>, Vec<String>) {
        let mut dropped = Vec::new();
        let (had, is_same_place, names) = match (before, self.transport) {
            (Some(Reach::Stdio(stdio)), TransportKind::Stdio) => {
                let is_same = Some(&stdio.command) == self.command.as_ref() && Some(&stdio.args) == self.args.as_ref();
                (stdio.env.clone(), is_same, self.env)
            }
            (Some(Reach::Http(http)), TransportKind::Http) => {
                let url = self.url.as_deref().unwrap_or_default();
                if loses_url_secrets(&http.url, url) {
                    dropped.push(format!("mcp.{}.url", self.name));
                }
                (http.headers.clone(), server_of(&http.url) == server_of(url), self.headers)
            }
            // Another kind of server: what the one before had goes with it.
            (Some(before), _) => {
                let (field, had) = match before {
                    Reach::Stdio(stdio) => ("env", &stdio.env),
                    Reach::Http(http) => ("headers", &http.headers),
                };
                dropped.extend(had.iter().map(|name| format!("mcp.{}.{field}.{name}", self.name)));
                let names = if self.transport == TransportKind::Stdio { self.env } else { self.headers };
                (BTreeSet::new(), true, names)
            }
            (_, TransportKind::Stdio) => (BTreeSet::new(), true, self.env),
            (_, TransportKind::Http) => (BTreeSet::new(), true, self.headers),
        };
        let field = if self.transport == TransportKind::Stdio { "env" } else { "headers" };
        let misled = had.iter().filter(|name| !is_same_place && names.contains(*name));
        dropped.extend(misled.map(|name| format!("mcp.{}.{field}.{name}", self.name)));
        let cleared = had.into_iter().filter(|name| !is_same_place || !names.contains(name));
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
