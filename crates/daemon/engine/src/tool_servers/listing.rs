//! Tool lists of servers: stored as received, and converted to the tools that agents are offered.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Redactor;
use agentd_mcp::{ServerInfo, ToolHints, ToolList};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::ToolServer;
use super::names;
use crate::tools::{Effect, InputSchema, ToolDescription};

/// Extra time of a call for cancelling it on the server.
const CANCELLATION_MARGIN: Duration = Duration::from_secs(10);

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RemoteTool {
    name: String,
    title: Option<String>,
    description: String,
    input_schema: Value,
    /// Hints of the server about side effects.
    #[serde(default)]
    hints: ToolHints,
}

/// Tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SkippedTool {
    /// Name as received from the server.
    pub name: String,
    /// Reason; completes the sentence "omitted because".
    pub reason: String,
}

/// Identity that a server reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ServerIdentity {
    /// Name that the server reports.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Version of the MCP protocol, for example `2025-11-25`.
    pub protocol_version: String,
}

/// Tool list of a server at the last request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    pub server: ServerIdentity,
    tools: Vec<RemoteTool>,
    pub left_out: Vec<SkippedTool>,
    /// Reason why the list is incomplete.
    pub cut_short: Option<String>,
}

/// A tool under the name that models use.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    /// Name of the tool on the server.
    pub remote_name: String,
    pub title: Option<String>,
    pub description: ToolDescription,
    pub(super) hints: ToolHints,
}

impl Listing {
    pub(super) fn new(info: &ServerInfo, list: ToolList) -> Self {
        let tools = list.tools.into_iter().map(|tool| RemoteTool {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            input_schema: Value::Object(tool.input_schema),
            hints: tool.hints,
        });
        Self {
            server: ServerIdentity {
                name: info.name.clone(),
                version: info.version.clone(),
                protocol_version: info.protocol_version.clone(),
            },
            tools: tools.collect(),
            left_out: list
                .left_out
                .into_iter()
                .map(|tool| SkippedTool { name: tool.name, reason: tool.reason })
                .collect(),
            cut_short: list.cut_short,
        }
    }

    /// Redacts the server's secrets, which it may echo. A tool whose name contains one is omitted.
    pub(super) fn redacted(mut self, redactor: &Redactor) -> Self {
        let hide = |text: &mut String| *text = redactor.redact(std::mem::take(text));
        for text in [&mut self.server.name, &mut self.server.version, &mut self.server.protocol_version] {
            hide(text);
        }
        self.cut_short.iter_mut().for_each(hide);
        for tool in &mut self.left_out {
            hide(&mut tool.name);
            hide(&mut tool.reason);
        }
        for mut tool in std::mem::take(&mut self.tools) {
            let name = redactor.redact(&tool.name);
            if name != tool.name {
                self.left_out
                    .push(SkippedTool { name, reason: "its name contains a credential of the server".to_owned() });
                continue;
            }
            tool.title.iter_mut().for_each(hide);
            hide(&mut tool.description);
            redactor.redact_json(&mut tool.input_schema);
            self.tools.push(tool);
        }
        self
    }

    /// Returns the tools under their offered names, in the server's order, and the tools that cannot be offered.
    /// `is_taken` reports names of tools that belong to no server.
    pub(super) fn offered(
        &self,
        server: &ToolServer,
        connect_limit: Duration,
        is_taken: impl Fn(&str) -> bool,
    ) -> (Vec<Arc<OfferedTool>>, Vec<SkippedTool>) {
        let mut left_out = self.left_out.clone();
        let remote_names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = names::offered(&server.prefix, remote_names, is_taken);
        let time_limit = Duration::from_secs(server.timeout_seconds.into()) + connect_limit + CANCELLATION_MARGIN;
        let mut offered = Vec::with_capacity(self.tools.len());
        for (tool, name) in self.tools.iter().zip(names) {
            let described = name.ok_or_else(|| "all names for it are already in use".to_owned()).and_then(|name| {
                let input_schema = InputSchema::new(tool.input_schema.clone())?;
                Ok(ToolDescription {
                    name,
                    description: describe(server, tool),
                    input_schema,
                    effect: if server.trusted && tool.hints.read_only == Some(true) {
                        Effect::Reads
                    } else {
                        Effect::Acts
                    },
                    time_limit,
                })
            });
            match described {
                Ok(description) => offered.push(Arc::new(OfferedTool {
                    remote_name: tool.name.clone(),
                    title: tool.title.clone(),
                    description,
                    hints: tool.hints,
                })),
                Err(reason) => left_out.push(SkippedTool { name: tool.name.clone(), reason }),
            }
        }
        (offered, left_out)
    }
}

/// Model vendors require a description.
fn describe(server: &ToolServer, tool: &RemoteTool) -> String {
    let texts = [Some(tool.description.as_str()), tool.title.as_deref()];
    let texts = texts.into_iter().flatten().find(|text| !text.trim().is_empty());
    texts.map_or_else(|| format!("The tool `{}` of the tool server {}.", tool.name, server.name), str::to_owned)
}
