//! Skills as part of the settings: what is switched off, custom tools and tool servers, without their secrets.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{FieldProblem, HIDDEN, Patch, Problems, SecretUpdate};
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::builtin::BuiltinTools;
use super::builtin::store::list_switched_off;
use super::custom::store::list_custom_tools;
use super::custom::{CustomTool, CustomToolChange, CustomTools, HttpMethod, HttpRequestChange, ToolKind};
use super::error::SkillError;
use super::servers::{Reach, ToolServer, ToolServerChange, ToolServerError, ToolServers, TransportKind};
use crate::settings::{KeeperImport, PortableSection, SealedUrl, UnknownMask, server_of};

const NAME: &str = "skills";

/// What an export holds of skills.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportedSkills {
    /// Names of built-in tools that are switched off; all others are on.
    builtin_off: Option<BTreeSet<String>>,
    #[schema(max_items = 1000)]
    custom: Vec<ExportedTool>,
    #[schema(max_items = 1000)]
    mcp: Vec<ExportedServer>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExportedTool {
    name: String,
    description: String,
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
    kind: ToolKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<ExportedRequest>,
    timeout_seconds: u32,
    enabled: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExportedRequest {
    method: HttpMethod,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The names alone.
    #[serde(default)]
    secret_headers: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExportedServer {
    name: String,
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
    catalog_entry: Option<String>,
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
    /// As a change of the tool that has the name here. A secret header keeps its value where it has one and the
    /// request still leads to the same host; else it is cleared and waits to be entered again, and is named.
    fn change(self, before: Option<&CustomTool>) -> (CustomToolChange, BTreeSet<String>, Vec<String>) {
        let (mut names, mut dropped) = (BTreeSet::new(), Vec::new());
        let request = match self.request {
            None => Patch::Clear,
            Some(request) => {
                names = request.secret_headers;
                let had = before.map(CustomTool::secret_names).unwrap_or_default();
                let had_request = before.and_then(|before| before.request.as_ref());
                let has_moved = had_request.is_some_and(|before| before.leads_elsewhere(&request.url));
                let misled = had.iter().filter(|name| has_moved && names.contains(*name));
                dropped.extend(misled.map(|name| format!("custom.{}.secret_headers.{name}", self.name)));
                if had_request.is_some_and(|before| loses_url_secrets(&before.url, &request.url)) {
                    dropped.push(format!("custom.{}.url", self.name));
                }
                let cleared = had.into_iter().filter(|name| has_moved || !names.contains(name));
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

/// Whether credentials in a url cannot be kept although the url that comes in its place has them.
fn loses_url_secrets(before: &str, after: &str) -> bool {
    SealedUrl::new(after, Some(before), UnknownMask::Leave).is_ok_and(|sealed| sealed.dropped)
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

impl ExportedServer {
    /// As a change of the registration that has the name here. Values of variables and headers stay where the
    /// registration still leads to the same place; else they are cleared and wait to be entered again, and are named.
    fn change(self, before: Option<&Reach>) -> (ToolServerChange, BTreeSet<String>, Vec<String>) {
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

/// Skills as [`PortableSection`] sees them.
#[derive(Debug)]
pub struct PortableSkills {
    builtin: BuiltinTools,
    custom: CustomTools,
    servers: ToolServers,
}

impl PortableSkills {
    #[must_use]
    pub fn new(builtin: &BuiltinTools, custom: &CustomTools, servers: &ToolServers) -> Self {
        Self { builtin: builtin.clone(), custom: custom.clone(), servers: servers.clone() }
    }

    async fn read(&self, read: &mut Read) -> Result<ExportedSkills, StoreError> {
        Ok(ExportedSkills {
            builtin_off: Some(list_switched_off(read).await?),
            custom: list_custom_tools(read).await?.into_iter().map(ExportedTool::from).collect(),
            mcp: self.servers.registrations(read).await?.into_iter().map(ExportedServer::from).collect(),
        })
    }

    async fn write(&self, tx: &mut Tx, exported: ExportedSkills) -> Result<KeeperImport, StoreError> {
        let (mut problems, mut dropped_secrets) = (Problems::new(), Vec::new());
        if let Some(off) = exported.builtin_off {
            self.builtin.switch_off_only(tx, &off).await?;
        }
        for (index, tool) in exported.custom.into_iter().enumerate() {
            let before = self.custom.find_named(tx, &tool.name).await?;
            let (change, secret_headers, dropped) = tool.change(before.as_ref());
            dropped_secrets.extend(dropped);
            match self.custom.write(tx, before, change, secret_headers).await {
                Err(SkillError::Store(error)) => return Err(error),
                other => note(&mut problems, &format!("custom[{index}]"), other),
            }
        }
        for (index, server) in exported.mcp.into_iter().enumerate() {
            let before = self.servers.find_named(tx, &server.name).await?;
            let catalog_entry = server.catalog_entry.clone();
            let (change, names, dropped) = server.change(before.as_ref().map(|server| &server.reach));
            dropped_secrets.extend(dropped);
            match self.servers.write(tx, before, change, names, catalog_entry).await {
                Err(ToolServerError::Store(error)) => return Err(error),
                other => note(&mut problems, &format!("mcp[{index}]"), other),
            }
        }
        Ok(KeeperImport { problems: problems.into_result().err().unwrap_or_default(), dropped_secrets })
    }
}

/// What was wrong with one entry, under its place in the list.
fn note<E: agentd_base::DomainError>(problems: &mut Problems, place: &str, outcome: Result<(), E>) {
    let Err(error) = outcome else { return };
    match error.kind() {
        agentd_base::ErrorKind::Invalid(found) => {
            for problem in found {
                problems.add(format!("{place}.{}", problem.field), problem.message);
            }
        }
        _ => problems.add(place, error.to_string()),
    }
}

impl PortableSection for PortableSkills {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export<'r>(&'r self, read: &'r mut Read) -> BoxFuture<'r, Result<Value, StoreError>> {
        async move { Ok(serde_json::to_value(self.read(read).await?).unwrap_or_default()) }.boxed()
    }

    /// As their own endpoints show them: paths, queries, arguments, headers and bodies may hold tokens.
    fn conceal(&self, exported: &mut Value) {
        let hide = |value: &mut Value| *value = Value::from(HIDDEN);
        let show_server = |url: &mut Value| {
            if let Some(text) = url.as_str() {
                *url = Value::from(server_of(text).unwrap_or_else(|| "?".to_owned()));
            }
        };
        for server in exported["mcp"].as_array_mut().into_iter().flatten() {
            server.get_mut("url").map(show_server);
            server.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten().for_each(hide);
        }
        for tool in exported["custom"].as_array_mut().into_iter().flatten() {
            let Some(request) = tool.get_mut("request") else { continue };
            request.get_mut("url").map(show_server);
            request
                .get_mut("headers")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flatten()
                .for_each(|(_, value)| hide(value));
            request.get_mut("body").map(hide);
        }
    }

    fn import<'t>(
        &'t self,
        tx: &'t mut Tx,
        exported: &'t Value,
    ) -> LocalBoxFuture<'t, Result<KeeperImport, StoreError>> {
        async move {
            let mut exported = exported.clone();
            let mut problems = Problems::new();
            agentd_web::check::<ExportedSkills>(&mut exported, &mut problems);
            if let Err(problems) = problems.into_result() {
                return Ok(KeeperImport { problems, ..KeeperImport::default() });
            }
            match serde_json::from_value(exported) {
                Ok(exported) => self.write(tx, exported).await,
                Err(error) => {
                    let message = format!("is not valid: {error}");
                    let problems = vec![FieldProblem { field: "body".to_owned(), message }];
                    Ok(KeeperImport { problems, ..KeeperImport::default() })
                }
            }
        }
        .boxed_local()
    }

    fn imported(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.servers.follow_import().await {
                tracing::warn!(%error, "imported tool servers are connected to when they are needed");
            }
        }
        .boxed()
    }
}
