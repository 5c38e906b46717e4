//! Response bodies for tool servers.

use std::collections::BTreeMap;

use agentd_base::{HIDDEN, SecretState, Timestamp};
use agentd_core::vault::server_origin;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::tool_servers::{
    Failure, OfferedTool, ServerIdentity, ServerStatus, SkippedTool, TestReport, ToolServer, ToolServerId,
    ToolServerState, Transport, TransportKind, secret_states,
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

/// Tool that a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerTool {
    /// Name of the tool for models.
    name: String,
    /// Name of the tool on the server.
    remote_name: String,
    /// Display name provided by the server; null if there is none.
    #[schema(required)]
    title: Option<String>,
    /// Description provided by the server.
    description: String,
    /// Side effects of the tool: `reads` if the server is trusted and declares it read-only, otherwise `acts`.
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

/// Registered tool server. Fields of the other transport are null. Read-only API keys see only the host of `url` and
/// the number of `args`, because the rest may contain tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerView {
    id: ToolServerId,
    /// Name, unique among tool servers.
    name: String,
    /// Prefix of the tool names for models: 1 to 24 characters, derived from `name`.
    tool_prefix: String,
    transport: TransportKind,
    /// stdio: program, by name or absolute path.
    #[schema(required)]
    command: Option<String>,
    /// stdio: arguments of the program.
    #[schema(required)]
    args: Option<Vec<String>>,
    /// stdio: environment variables by name, and whether each has a value. Values are never returned.
    #[schema(required)]
    env: Option<BTreeMap<String, SecretState>>,
    /// stdio: whether the program may access public addresses.
    #[schema(required)]
    network: Option<bool>,
    /// stdio: absolute paths that the program may read, besides the system's programs and libraries.
    #[schema(required)]
    readable_paths: Option<Vec<String>>,
    /// stdio: absolute paths of folders that the program may modify, besides its home folder.
    #[schema(required)]
    writable_paths: Option<Vec<String>>,
    /// http: URL of the endpoint, with credentials replaced by `***`.
    #[schema(required)]
    url: Option<String>,
    /// http: headers by name, and whether each has a value. Values are never returned.
    #[schema(required)]
    headers: Option<BTreeMap<String, SecretState>>,
    /// Whether the server is enabled; tools of a disabled server are not offered.
    enabled: bool,
    /// Whether the server's read-only hints are trusted.
    trusted: bool,
    /// Time limit of one call in seconds.
    timeout_seconds: u32,
    /// Id of the catalog entry from which it was installed; null if none.
    #[schema(required)]
    catalog_entry: Option<String>,
    /// Status of the server on the daemon that handles the request.
    status: ServerStatus,
    /// Reason for the last failure; null if the last attempt succeeded.
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// Tools at the last listing; empty if it was never listed.
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

/// List of tool servers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerList {
    /// All tool servers, oldest first.
    pub(super) servers: Vec<ToolServerView>,
    /// Number of tool servers.
    pub(super) total: usize,
}

/// Confirmation that a tool server was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerDeleted {
    /// Always `true`.
    pub(super) deleted: bool,
}

/// Tool that cannot be offered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SkippedToolView {
    /// Name as received from the server; empty if missing.
    name: String,
    /// Reason; completes the sentence "omitted because".
    reason: String,
}

impl From<SkippedTool> for SkippedToolView {
    fn from(tool: SkippedTool) -> Self {
        Self { name: tool.name, reason: tool.reason }
    }
}

/// Tool with its input schema.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTool {
    #[serde(flatten)]
    tool: ToolServerTool,
    /// JSON Schema of the tool's input.
    #[schema(value_type = Object)]
    input_schema: Value,
}

/// Tools that a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTools {
    /// Tools in the server's order.
    tools: Vec<DiscoveredTool>,
    /// Number of tools.
    total: usize,
    /// Tools of the server that cannot be offered, with reasons.
    left_out: Vec<SkippedToolView>,
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
            left_out: state.left_out.into_iter().map(SkippedToolView::from).collect(),
            cut_short: state.cut_short,
        }
    }
}

/// Status of a tool server on the daemon that handles the request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerStatusView {
    id: ToolServerId,
    status: ServerStatus,
    /// Reason for the last failure; null if the last attempt succeeded.
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// Identity reported by the server; null if unknown.
    #[schema(required)]
    server: Option<ServerIdentity>,
    /// Number of its tools that agents are offered.
    tools: usize,
    /// Tools of the server that cannot be offered, with reasons.
    left_out: Vec<SkippedToolView>,
    /// Time of the last listing that changed the tools; null if it was never listed.
    #[schema(required)]
    listed_at: Option<Timestamp>,
    /// Time at which the current session started; null while not connected.
    #[schema(required)]
    connected_at: Option<Timestamp>,
    /// Time of the last call or connection; null if there was none since the daemon started.
    #[schema(required)]
    last_used_at: Option<Timestamp>,
    /// Earliest time of the next connection attempt for calls after a failure; null if calls connect immediately.
    #[schema(required)]
    retry_at: Option<Timestamp>,
    /// Number of sessions that ended unexpectedly since the daemon started.
    losses: u64,
    /// stdio: process id of the sandbox around the program; null without a session.
    #[schema(required)]
    process_id: Option<u32>,
    /// stdio: isolation level of the program, as in the sandbox settings; null without a session.
    #[schema(required, value_type = Option<String>)]
    sandbox: Option<String>,
    /// End of the program's error output, with secrets redacted; empty if there is none.
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
            left_out: state.left_out.into_iter().map(SkippedToolView::from).collect(),
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

/// Result of a tool server test.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerTestView {
    /// Whether the server connected and listed its tools.
    ok: bool,
    /// Duration of the test in milliseconds.
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
    /// End of the program's error output, with secrets redacted; empty if there is none.
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
