//! Export and import of tools: disabled built-in tools, custom tools and tool servers, without their secrets.

mod server;
mod tool;

use std::collections::BTreeSet;

use agentd_base::{FieldProblem, HIDDEN, Problems};
use agentd_core::settings::{PortableImport, PortableSection, SafetyReport, SafetyScope};
use agentd_core::vault::server_origin;
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::server::ExportedServer;
use self::tool::ExportedTool;
use crate::tool_servers::{ToolServerError, ToolServers};
use crate::tools::{BuiltinTools, CustomTools, ToolsError, list_custom_tools, list_disabled_tools};

const NAME: &str = "skills";

/// Exported tools and tool servers, without secrets.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportedSkills {
    /// Names of disabled built-in tools; all others are enabled. Null keeps the current state.
    builtin_off: Option<BTreeSet<String>>,
    /// Custom tools, up to 1,000.
    #[schema(max_items = 1000)]
    custom: Vec<ExportedTool>,
    /// Tool servers, up to 1,000.
    #[schema(max_items = 1000)]
    mcp: Vec<ExportedServer>,
}

/// Implementation of [`PortableSection`] for tools.
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
            builtin_off: Some(list_disabled_tools(read).await?),
            custom: list_custom_tools(read).await?.into_iter().map(ExportedTool::from).collect(),
            mcp: self.servers.registrations(read).await?.into_iter().map(ExportedServer::from).collect(),
        })
    }

    async fn write(
        &self,
        tx: &mut Tx,
        exported: ExportedSkills,
        scope: SafetyScope,
    ) -> Result<PortableImport, StoreError> {
        let (mut problems, mut dropped_secrets) = (Problems::new(), Vec::new());
        let mut safety = SafetyReport::default();
        if let Some(off) = exported.builtin_off {
            self.builtin.disable_exactly(tx, &off).await?;
        }
        for (index, tool) in exported.custom.into_iter().enumerate() {
            let before = self.custom.find_named(tx, &tool.name).await?;
            let (change, secret_headers, dropped) = tool.change(before.as_ref());
            dropped_secrets.extend(dropped);
            match self.custom.write(tx, before, change, secret_headers).await {
                Err(ToolsError::Store(error)) => return Err(error),
                other => add_problems(&mut problems, &format!("custom[{index}]"), other),
            }
        }
        for (index, mut server) in exported.mcp.into_iter().enumerate() {
            let before = self.servers.find_named(tx, &server.name).await?;
            let section = format!("{NAME}.mcp.{}", server.name);
            safety.extend(server.settle_permissions(&section, before.as_ref(), scope));
            let catalog_entry = server.catalog_entry.clone();
            let (change, names, dropped) = server.change(before.as_ref().map(|server| &server.transport));
            dropped_secrets.extend(dropped);
            match self.servers.write(tx, before, change, names, catalog_entry).await {
                Err(ToolServerError::Store(error)) => return Err(error),
                other => add_problems(&mut problems, &format!("mcp[{index}]"), other),
            }
        }
        Ok(PortableImport { problems: problems.into_result().err().unwrap_or_default(), dropped_secrets, safety })
    }
}

/// Adds the problems of one entry under its position in the list.
fn add_problems<E: agentd_base::DomainError>(problems: &mut Problems, position: &str, outcome: Result<(), E>) {
    let Err(error) = outcome else { return };
    match error.kind() {
        agentd_base::ErrorKind::Invalid(found) => {
            for problem in found {
                problems.add(format!("{position}.{}", problem.field), problem.message);
            }
        }
        _ => problems.add(position, error.to_string()),
    }
}

impl PortableSection for PortableSkills {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export<'r>(&'r self, read: &'r mut Read) -> BoxFuture<'r, Result<Value, StoreError>> {
        async move { Ok(serde_json::to_value(self.read(read).await?).unwrap_or_default()) }.boxed()
    }

    /// Hides what the endpoints of these resources hide: paths, queries, arguments, headers and bodies may contain
    /// tokens.
    fn redact_for_read_scope(&self, exported: &mut Value) {
        let hide = |value: &mut Value| *value = Value::from(HIDDEN);
        let show_server = |url: &mut Value| {
            if let Some(text) = url.as_str() {
                *url = Value::from(server_origin(text).unwrap_or_else(|| "?".to_owned()));
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
        safety: SafetyScope,
    ) -> LocalBoxFuture<'t, Result<PortableImport, StoreError>> {
        async move {
            let mut exported = exported.clone();
            let mut problems = Problems::new();
            agentd_web::check::<ExportedSkills>(&mut exported, &mut problems);
            if let Err(problems) = problems.into_result() {
                return Ok(PortableImport { problems, ..PortableImport::default() });
            }
            match serde_json::from_value(exported) {
                Ok(exported) => self.write(tx, exported, safety).await,
                Err(error) => {
                    let message = format!("is not valid: {error}");
                    let problems = vec![FieldProblem { field: "body".to_owned(), message }];
                    Ok(PortableImport { problems, ..PortableImport::default() })
                }
            }
        }
        .boxed_local()
    }

    fn imported(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.servers.apply_import().await {
                tracing::warn!(%error, "failed to apply imported tool servers; they are connected on demand");
            }
        }
        .boxed()
    }
}
