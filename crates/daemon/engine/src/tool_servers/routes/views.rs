//! Response bodies for tool servers.

use std::collections::BTreeMap;

use agentd_base::{HIDDEN, SecretState, Timestamp};
use agentd_core::vault::server_origin;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::tool_servers::{
    Failure, LeftOut, OfferedTool, ServerIdentity, ServerStatus, TestReport, ToolServer, ToolServerId, ToolServerState,
    Transport, TransportKind, secret_states,
};
use crate::tools::Effect;

/// Reason why a server is unavailable.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerProblem {
    /// Message for users.
    message: String,
    /// Stable error code.
    code: String,
}

impl From<&Failure> for ToolServerProblem {
    fn from(failure: &Failure) -> Self {
        Self { message: failure.message.clone(), code: failure.code.to_owned() }
    }
}

/// A tool that a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerTool {
    /// Name of the tool for models.
    name: String,
    /// Name of the tool on the server.
    remote_name: String,
    #[schema(required)]
    title: Option<String>,
    /// Description provided by the server.
    description: String,
    /// `reads` or `acts`; `acts` unless the server is trusted and declares the tool read-only.
    effect: &'static str,
}

impl From<&OfferedTool> for ToolServerTool {
    fn from(tool: &OfferedTool) -> Self {
        Self {
            name: tool.description.name.clone(),
            remote_name: tool.remote_name.clone(),
            title: tool.title.clone(),
            description: tool.description.description.clone(),
            effect: match tool.description.effect {
                Effect::Reads => "reads",
                Effect::Acts => "acts",
            },
        }
    }
}

fn tools(state: &ToolServerState) -> Vec<ToolServerTool> {
    state.tools.iter().map(|tool| ToolServerTool::from(tool.as_ref())).collect()
}

/// A registered tool server. Fields of the other transport are null. Read-only API keys see only the server of `url`
/// and the number of `args`, because the rest may contain tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerView {
    id: ToolServerId,
    name: String,
    /// Prefix of its tool names.
    tool_prefix: String,
    transport: TransportKind,
    #[schema(required)]
    command: Option<String>,
    #[schema(required)]
    args: Option<Vec<String>>,
    /// Never the values.
    #[schema(required)]
    env: Option<BTreeMap<String, SecretState>>,
    #[schema(required)]
    network: Option<bool>,
    #[schema(required)]
    readable_paths: Option<Vec<String>>,
    #[schema(required)]
    writable_paths: Option<Vec<String>>,
    #[schema(required)]
    url: Option<String>,
    /// Never the values.
    #[schema(required)]
    headers: Option<BTreeMap<String, SecretState>>,
    enabled: bool,
    trusted: bool,
    timeout_seconds: u32,
    /// Catalog entry from which it was installed; null if none.
    #[schema(required)]
    catalog_entry: Option<String>,
    /// Status on the daemon that handles the request.
    status: ServerStatus,
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// Tools at the last listing.
    tools: Vec<ToolServerTool>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<ToolServerState> for ToolServerView {
    fn from(state: ToolServerState) -> Self {
        let (tools, server) = (tools(&state), &state.server);
        let (stdio, http) = match &server.transport {
            Transport::Stdio(stdio) => (Some(stdio), None),
            Transport::Http(http) => (None, Some(http)),
        };
        Self {
            id: server.id.clone(),
            name: server.name.clone(),
            tool_prefix: server.prefix.clone(),
            transport: server.transport.kind(),
            command: stdio.map(|stdio| stdio.command.clone()),
            args: stdio.map(|stdio| stdio.args.clone()),
            env: stdio.map(|stdio| secret_states(&stdio.env, &state.missing)),
            network: stdio.map(|stdio| stdio.network),
            readable_paths: stdio.map(|stdio| stdio.readable_paths.clone()),
            writable_paths: stdio.map(|stdio| stdio.writable_paths.clone()),
            url: http.map(|http| http.url.clone()),
            headers: http.map(|http| secret_states(&http.headers, &state.missing)),
            enabled: server.enabled,
            trusted: server.trusted,
            timeout_seconds: server.timeout_seconds,
            catalog_entry: server.catalog_entry.clone(),
            status: state.status,
            error: state.failure.as_ref().map(ToolServerProblem::from),
            tools,
            created_at: server.created_at,
            updated_at: server.updated_at,
        }
    }
}

impl ToolServerView {
    /// Hides paths, queries and arguments, which may contain tokens, from read-only API keys.
    pub(super) fn redacted_for(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Full {
            return self;
        }
        self.url = self.url.map(|url| server_origin(&url).unwrap_or_else(|| "?".to_owned()));
        self.args.iter_mut().flatten().for_each(|argument| HIDDEN.clone_into(argument));
        self
    }
}

/// All tool servers, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerList {
    pub(super) servers: Vec<ToolServerView>,
    pub(super) total: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerDeleted {
    /// Always `true`.
    pub(super) deleted: bool,
}

/// A tool that cannot be offered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeftOutTool {
    name: String,
    /// Reason; completes the sentence "omitted because".
    reason: String,
}

impl From<LeftOut> for LeftOutTool {
    fn from(tool: LeftOut) -> Self {
        Self { name: tool.name, reason: tool.reason }
    }
}

/// A tool with its input schema.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTool {
    #[serde(flatten)]
    tool: ToolServerTool,
    #[schema(value_type = Object)]
    input_schema: Value,
}

/// Tools that a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTools {
    /// Tools in the server's order.
    tools: Vec<DiscoveredTool>,
    total: usize,
    left_out: Vec<LeftOutTool>,
    /// Reason why the list is incomplete; null if complete.
    #[schema(required)]
    cut_short: Option<String>,
}

impl From<ToolServerState> for DiscoveredTools {
    fn from(state: ToolServerState) -> Self {
        let discovered = |tool: &OfferedTool| DiscoveredTool {
            tool: tool.into(),
            input_schema: tool.description.input_schema.value().clone(),
        };
        Self {
            tools: state.tools.iter().map(|tool| discovered(tool)).collect(),
            total: state.tools.len(),
            left_out: state.left_out.into_iter().map(LeftOutTool::from).collect(),
            cut_short: state.cut_short,
        }
    }
}

/// Status of a server on the daemon that handles the request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerStatusView {
    id: ToolServerId,
    status: ServerStatus,
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// Identity reported by the server; null if unknown.
    #[schema(required)]
    server: Option<ServerIdentity>,
    /// Number of its tools that agents are offered.
    tools: usize,
    left_out: Vec<LeftOutTool>,
    /// Time of the last listing that changed the tools.
    #[schema(required)]
    listed_at: Option<Timestamp>,
    #[schema(required)]
    connected_at: Option<Timestamp>,
    #[schema(required)]
    last_used_at: Option<Timestamp>,
    /// Earliest time of the next connection attempt after a failure.
    #[schema(required)]
    retry_at: Option<Timestamp>,
    /// Number of sessions lost by a crash or a failed connection.
    losses: u64,
    /// Process id of the sandbox around the program.
    #[schema(required)]
    process_id: Option<u32>,
    /// Isolation level of the sandbox of the program.
    #[schema(required, value_type = Option<String>)]
    sandbox: Option<String>,
    /// The end of what the program wrote on its error output, without what is secret.
    stderr_tail: String,
}

impl From<ToolServerState> for ToolServerStatusView {
    fn from(state: ToolServerState) -> Self {
        Self {
            id: state.server.id.clone(),
            status: state.status,
            error: state.failure.as_ref().map(ToolServerProblem::from),
            server: state.identity,
            tools: state.tools.len(),
            left_out: state.left_out.into_iter().map(LeftOutTool::from).collect(),
            listed_at: state.listed_at,
            connected_at: state.connected_at,
            last_used_at: state.last_used_at,
            retry_at: state.retry_at,
            losses: state.losses,
            process_id: state.process_id,
            sandbox: state.tier.map(|tier| tier.to_string()),
            stderr_tail: state.stderr_tail,
        }
    }
}

/// Result of a test.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerTestView {
    /// Whether the server connected and listed its tools.
    ok: bool,
    latency_ms: u64,
    /// Identity reported by the server; only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ServerIdentity, required = false)]
    server: Option<ServerIdentity>,
    /// Tools of the server; only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<ToolServerTool>, required = false)]
    tools: Option<Vec<ToolServerTool>>,
    /// Error message; only if not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
    /// Error code; only if not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    code: Option<String>,
    /// The end of what the program wrote on its error output, without what is secret.
    stderr_tail: String,
}

impl From<TestReport> for ToolServerTestView {
    fn from(report: TestReport) -> Self {
        let latency_ms = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX);
        let stderr_tail = report.stderr_tail;
        match report.outcome {
            Ok((listing, tools)) => Self {
                ok: true,
                latency_ms,
                server: Some(listing.server),
                tools: Some(tools.iter().map(|tool| ToolServerTool::from(tool.as_ref())).collect()),
                error: None,
                code: None,
                stderr_tail,
            },
            Err(failure) => Self {
                ok: false,
                latency_ms,
                server: None,
                tools: None,
                error: Some(failure.message),
                code: Some(failure.code.to_owned()),
                stderr_tail,
            },
        }
    }
}

/// Builds the response that a repeated creation request receives.
pub(super) fn created(server: &ToolServer) -> ToolServerView {
    ToolServerView::from(ToolServerState::of_registration(server))
}
