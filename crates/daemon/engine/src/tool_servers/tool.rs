//! The tools of servers, as agents get them.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Redactor;
use agentd_mcp::{CallLimits, McpError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::error::ToolServerError;
use super::link::{Command, Wanted};
use super::listing::OfferedTool;
use super::model::ToolServer;
use super::service::ToolServers;
use super::state::CallOutcome;
use crate::agents::Agent;
use crate::tools::{
    Author, Share, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, ToolSource, fingerprint_of,
};

/// Of a tool's own complaint.
const MAX_COMPLAINT_CHARACTERS: usize = 4_000;

struct ServerTool {
    servers: ToolServers,
    /// As it was registered when the tool was offered.
    server: Arc<ToolServer>,
    tool: Arc<OfferedTool>,
}

impl std::fmt::Debug for ServerTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTool").field("name", &self.tool.description.name).finish_non_exhaustive()
    }
}

impl ServerTool {
    /// The server writes everything, also one that its owner trusts: that is about what its tools do.
    fn author(&self) -> Author {
        Author::Other(format!("the tool server {}", Value::from(self.server.name.as_str())))
    }

    /// Whether this is still what the owner approved: a server that was connected to just now has said again what it
    /// offers.
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
        // As it is registered now: the call may have waited for days to be approved.
        let (server, spec) = self.servers.in_force(&self.server.id).await.map_err(failed)?;
        let link = self.servers.link(&self.server.id);
        let _call = link.begin_call();
        let session = link.session(&spec, Wanted::ByAgent).await.map_err(failed)?;
        self.require_approved(approved).await.map_err(failed)?;
        let limits = CallLimits { time: Duration::from_secs(server.timeout_seconds.into()), ..CallLimits::default() };
        let called = session.connection.call_tool(&self.tool.remote_name, Value::Object(input), limits).await;
        let output = called.map_err(|error| match error {
            McpError::Timeout { .. } => {
                // Full or gone: then it is looked after already.
                let _ = link.tell(Command::Check);
                ToolError::TimedOut(limits.time)
            }
            error => ToolError::Failed(session.failure(&error).message),
        })?;
        let output = redacted(output, &session.results);
        if output.is_error {
            return Err(ToolError::Failed(complaint(&output)));
        }
        Ok(answer(output))
    }
}

/// What a server answers may repeat what it was given.
fn redacted(mut output: agentd_mcp::ToolOutput, redactor: &Redactor) -> agentd_mcp::ToolOutput {
    output.text = redactor.hide_piece(output.text);
    if let Some(structured) = &mut output.structured {
        redactor.hide_json(structured);
    }
    output
}

/// The reason that a tool gives for its failure.
fn complaint(output: &agentd_mcp::ToolOutput) -> String {
    let reason = match &output.structured {
        Some(structured) if output.text.trim().is_empty() => structured.to_string(),
        _ => output.text.clone(),
    };
    if reason.trim().is_empty() {
        return "the tool failed and gave no reason".to_owned();
    }
    reason.chars().take(MAX_COMPLAINT_CHARACTERS).collect()
}

/// What the model reads. Most servers write structured content a second time as text.
fn answer(output: agentd_mcp::ToolOutput) -> ToolOutput {
    let (mut text, whole_bytes) = (output.text, output.text_cut_from_bytes);
    let text_alone = |text: String| ToolOutput { whole_bytes, ..ToolOutput::text(text) };
    if let Some(bytes) = output.text_cut_from_bytes {
        text.push_str(&format!("\n[cut; there were {bytes} bytes]"));
    }
    match output.structured {
        None if output.structured_left_out => {
            text.push_str("\n[the structured content was too long and is left out]");
            text_alone(text)
        }
        None if text.trim().is_empty() => text_alone("the tool returned no content".to_owned()),
        None => text_alone(text),
        Some(structured) => {
            let is_the_same = serde_json::from_str::<Value>(&text).is_ok_and(|parsed| parsed == structured);
            if is_the_same || text.trim().is_empty() {
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
        Some(json!(["server", self.server.id, self.server.reach, self.server.trusted, remote_name, title, hints]))
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
            // Whoever asks to write is told when the database is away.
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
                    tracing::warn!(%error, "the tool servers cannot be read; none of their tools is offered");
                    return Vec::new();
                }
            };
            let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
            for found in loaded.0.iter().filter(|found| found.server.enabled && found.spec.is_ok()) {
                let Some(known) = &found.listing else {
                    self.connect_aside(found, false);
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
    fn structured_content_is_said_once() {
        let structured = json!({"a": 1});
        let said = |text: &str| {
            let output = agentd_mcp::ToolOutput {
                text: text.to_owned(),
                structured: Some(structured.clone()),
                ..agentd_mcp::ToolOutput::default()
            };
            Value::Object(answer(output).value)
        };
        assert_eq!(said(r#"{ "a": 1 }"#), structured);
        assert_eq!(said(" "), structured);
        assert_eq!(said("one"), json!({"text": "one", "structured": structured}));
    }
}
