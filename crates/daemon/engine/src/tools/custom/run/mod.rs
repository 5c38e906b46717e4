//! Runs custom tools.

mod http;
mod python;
mod shell;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Entropy, Secret};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::model::{CustomTool, ToolKind};
use crate::agents::Agent;
use crate::code_runner::{CodeRunner, Interpreter};
use crate::tools::schema::InputSchema;
use crate::tools::tool::{
    Author, Consequence, Effect, Share, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput,
};

/// Dependencies for running custom tools. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ToolRuntime {
    pub(super) runner: CodeRunner,
    entropy: Entropy,
    /// Client for hosts defined by the owner.
    owner: GuardedClient,
    /// Client for hosts that a model controls.
    steered: GuardedClient,
}

impl ToolRuntime {
    pub(super) fn new(runner: CodeRunner, entropy: Entropy, policy: &PolicyHandle) -> Self {
        Self {
            runner,
            entropy,
            owner: GuardedClient::new(policy.clone(), Trust::Owner),
            steered: GuardedClient::new(policy.clone(), Trust::Untrusted),
        }
    }

    /// Returns the reason why tools of this kind are unavailable, if any.
    pub(super) fn problem(&self, kind: ToolKind) -> Option<String> {
        match kind {
            ToolKind::Python => self.runner.problem(Interpreter::Python),
            ToolKind::Shell => self.runner.problem(Interpreter::Shell),
            ToolKind::Http => None,
        }
    }
}

/// A custom tool that can be called.
pub(super) struct RunnableTool {
    description: ToolDescription,
    tool: Arc<CustomTool>,
    /// URL of an http tool, with its credentials.
    url: String,
    /// Secret headers and their values.
    secrets: Vec<(String, Secret)>,
    runtime: ToolRuntime,
}

impl std::fmt::Debug for RunnableTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunnableTool").field("name", &self.tool.name).finish_non_exhaustive()
    }
}

impl RunnableTool {
    /// # Errors
    /// The schema does not compile, although it did when the tool was saved.
    pub(super) fn new(
        tool: &Arc<CustomTool>,
        url: String,
        secrets: Vec<(String, Secret)>,
        runtime: &ToolRuntime,
    ) -> Result<Self, String> {
        let description = ToolDescription {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: InputSchema::new(tool.input_schema.clone())?,
            effect: Effect::Acts,
            time_limit: CodeRunner::call_limit(Duration::from_secs(tool.timeout_seconds.into())),
        };
        Ok(Self { description, tool: Arc::clone(tool), url, secrets, runtime: runtime.clone() })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.tool.timeout_seconds.into())
    }
}

impl Tool for RunnableTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn share(&self) -> Share<'_> {
        Share::Owner("custom")
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    /// A server writes the response of a request. Output of code is trusted unless it reads untrusted text.
    fn output_author(&self) -> Author {
        match &self.tool.request {
            Some(request) => Author::Other(request.display_host()),
            None => Author::Trusted,
        }
    }

    fn consequence<'a>(&'a self, _input: &'a Map<String, Value>, _agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        let consequence = match &self.tool.request {
            Some(request) if !request.method.is_safe() || request.has_model_controlled_host() => Consequence::Acts,
            Some(request) if request.has_placeholders() => Consequence::SendsTo(request.display_host()),
            Some(_) => Consequence::Contained,
            None => Consequence::Acts,
        };
        std::future::ready(consequence).boxed()
    }

    fn implementation(&self) -> Option<Value> {
        let tool = &self.tool;
        Some(json!(["custom", tool.id, tool.kind, tool.source_code, tool.request]))
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let source = self.tool.source_code.as_deref().unwrap_or_default();
            match (self.tool.kind, &self.tool.request) {
                (ToolKind::Python, _) => {
                    python::run(&self.runtime.runner, &self.runtime.entropy, source, input, self.timeout(), &context)
                        .await
                }
                (ToolKind::Shell, _) => {
                    shell::run(&self.runtime.runner, source, &input, self.timeout(), &context).await
                }
                (ToolKind::Http, Some(request)) => {
                    let client =
                        if request.has_model_controlled_host() { &self.runtime.steered } else { &self.runtime.owner };
                    let prepared = http::PreparedRequest { request, url: &self.url, secrets: &self.secrets };
                    http::run(client, prepared, &input, self.timeout()).await
                }
                (ToolKind::Http, None) => Err(ToolError::Failed("the tool has no request".to_owned())),
            }
        }
        .boxed()
    }
}
