//! Tools of tool servers, as offered to agents.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Redactor;
use agentd_mcp::{CallLimits, McpError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::error::ToolServerError;
use super::link::{Command, Requester};
use super::listing::OfferedTool;
use super::model::ToolServer;
use super::service::ToolServers;
use super::state::CallOutcome;
use crate::agents::Agent;
use crate::tools::{
    Author, Share, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, ToolSource, fingerprint_of,
};

/// Maximum length of a tool's error message.
const MAX_ERROR_CHARACTERS: usize = 4_000;

struct ServerTool {
    servers: ToolServers,
    /// Registration at the time of the offer.
    server: Arc<ToolServer>,
    tool: Arc<OfferedTool>,
}

impl std::fmt::Debug for ServerTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTool").field("name", &self.tool.description.name).finish_non_exhaustive()
    }
}

impl ServerTool {
    /// Text of a server is third-party text even if the owner trusts it: trust only covers its read-only hints.
    fn author(&self) -> Author {
        Author::Other(format!("the tool server {}", Value::from(self.server.name.as_str())))
    }

    /// Verifies that the tool is still the approved one: a server that just connected has listed its tools again.
    async fn require_approved(&self, approved: Option<&str>) -> Result<(), ToolServerError> {
        let Some(approved) = approved else { return Ok(()) };
        let loaded = self.servers.loaded().await?;
        let current = loaded.find(self.server.id.as_str()).and_then(|found| {
            let tools = found.listing.as_ref()?.tools.iter();
            let tool = tools.clone().find(|tool| tool.remote_name == self.tool.remote_name)?;
            Some(Self { servers: self.servers.clone(), server: Arc::clone(&found.server), tool: Arc::clone(tool) })
        });
        match current.is_some_and(|current| fingerprint_of(&current) == approved) {
            true => Ok(()),
            false => Err(ToolServerError::Changed),
        }
    }

    async fn run(&self, input: Map<String, Value>, approved: Option<&str>) -> Result<ToolOutput, ToolError> {
        let failed = |error: ToolServerError| ToolError::Failed(error.to_string());
        // Uses the current registration: the call may have waited for its approval for days.
        let (server, spec) = self.servers.find_enabled(&self.server.id).await.map_err(failed)?;
        let link = self.servers.link(&self.server.id);
        let _call = link.begin_call();
        let session = link.session(&spec, Requester::Agent).await.map_err(failed)?;
        self.require_approved(approved).await.map_err(failed)?;
        let limits = CallLimits { time: Duration::from_secs(server.timeout_seconds.into()), ..CallLimits::default() };
        let called = session.connection.call_tool(&self.tool.remote_name, Value::Object(input), limits).await;
        let output = called.map_err(|error| match error {
            McpError::Timeout { .. } => {
                // A full or closed queue needs no further command.
                let _ = link.send(Command::Ping);
                ToolError::TimedOut(limits.time)
            }
            error => ToolError::Failed(session.failure(&error).message),
        })?;
        let output = redacted(output, &session.results);
        if output.is_error {
            return Err(ToolError::Failed(error_message(&output)));
        }
        Ok(to_output(output))
    }
}

/// Redacts the server's secrets, which its results may echo.
fn redacted(mut output: agentd_mcp::ToolOutput, redactor: &Redactor) -> agentd_mcp::ToolOutput {
    output.text = redactor.redact_excerpt(output.text);
    if let Some(structured) = &mut output.structured {
        redactor.redact_json(structured);
    }
    output
}

/// Returns the reason that a tool gives for its failure.
fn error_message(output: &agentd_mcp::ToolOutput) -> String {
    let reason = match &output.structured {
        Some(structured) if output.text.trim().is_empty() => structured.to_string(),
        _ => output.text.clone(),
    };
    if reason.trim().is_empty() {
        return "the tool failed without giving a reason".to_owned();
    }
    reason.chars().take(MAX_ERROR_CHARACTERS).collect()
}

/// Converts the output for the model. Most servers repeat structured content as text.
fn to_output(output: agentd_mcp::ToolOutput) -> ToolOutput {
    let (mut text, whole_bytes) = (output.text, output.text_cut_from_bytes);
    let text_only = |text: String| ToolOutput { whole_bytes, ..ToolOutput::text(text) };
    if let Some(bytes) = output.text_cut_from_bytes {
        text.push_str(&format!("\n[cut; there were {bytes} bytes]"));
    }
    match output.structured {
        None if output.structured_left_out => {
            text.push_str("\n[the structured content was too long and is left out]");
            text_only(text)
        }
        None if text.trim().is_empty() => text_only("the tool returned no content".to_owned()),
        None => text_only(text),
        Some(structured) => {
            let is_duplicate = serde_json::from_str::<Value>(&text).is_ok_and(|parsed| parsed == structured);
            if is_duplicate || text.trim().is_empty() {
                return ToolOutput::json(structured);
            }
            ToolOutput { whole_bytes, ..ToolOutput::json(json!({"text": text, "structured": structured})) }
        }
    }
}

impl Tool for ServerTool {
    fn description(&self) -> &ToolDescription {
        &self.tool.description
    }

    fn share(&self) -> Share<'_> {
        Share::Server(self.server.id.as_str())
    }

    fn description_author(&self) -> Author {
        self.author()
    }

    fn output_author(&self) -> Author {
        self.author()
    }

    fn implementation(&self) -> Option<Value> {
        let OfferedTool { remote_name, title, hints, .. } = &*self.tool;
        Some(json!(["server", self.server.id, self.server.transport, self.server.trusted, remote_name, title, hints]))
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let mut counted = self.servers.count_call();
            let result = tokio::select! {
                biased;
                () = context.cancelled.cancelled() => Err(ToolError::Cancelled),
                result = self.run(input, context.approved.as_deref()) => result,
            };
            counted.outcome = match &result {
                Ok(_) => CallOutcome::Ok,
                Err(ToolError::TimedOut(_)) => CallOutcome::TimedOut,
                Err(ToolError::Cancelled) => CallOutcome::Cancelled,
                Err(_) => CallOutcome::Failed,
            };
            result
        }
        .boxed()
    }
}

impl ToolSource for ToolServers {
    fn name(&self) -> &'static str {
        "tool_servers"
    }

    fn has_tool<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        async move {
            // Write requests report a store error themselves.
            let Ok(loaded) = self.loaded().await else { return false };
            let listings = loaded.0.iter().filter_map(|found| found.listing.as_ref());
            listings.flat_map(|listing| &listing.tools).any(|tool| tool.description.name == name)
        }
        .boxed()
    }

    fn tools<'a>(&'a self, _agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        async move {
            let loaded = match self.loaded().await {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!(%error, "failed to load tool servers; none of their tools are offered");
                    return Vec::new();
                }
            };
            let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
            for found in loaded.0.iter().filter(|found| found.server.enabled && found.spec.is_ok()) {
                let Some(known) = &found.listing else {
                    self.connect_in_background(found, false);
                    continue;
                };
                tools.extend(known.tools.iter().map(|tool| {
                    let (servers, server) = (self.clone(), Arc::clone(&found.server));
                    Arc::new(ServerTool { servers, server, tool: Arc::clone(tool) }) as Arc<dyn Tool>
                }));
            }
            tools
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_is_not_duplicated() {
        let structured = json!({"a": 1});
        let converted = |text: &str| {
            let output = agentd_mcp::ToolOutput {
                text: text.to_owned(),
                structured: Some(structured.clone()),
                ..agentd_mcp::ToolOutput::default()
            };
            Value::Object(to_output(output).value)
        };
        assert_eq!(converted(r#"{ "a": 1 }"#), structured);
        assert_eq!(converted(" "), structured);
        assert_eq!(converted("one"), json!({"text": "one", "structured": structured}));
    }
}
