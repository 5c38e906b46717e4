//! What answers say of tool servers.

use std::collections::BTreeMap;

use agentd_base::{HIDDEN, SecretState, Timestamp};
use agentd_core::vault::server_of;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::tool_servers::{
    Failure, LeftOut, OfferedTool, Reach, ServerIdentity, ServerStatus, TestReport, ToolServer, ToolServerId,
    ToolServerState, TransportKind, shown_names,
};
use crate::tools::Effect;

/// Why a server cannot be used now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerProblem {
    /// A sentence that a person can act on.
    message: String,
    /// Stable, for programs.
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
    /// What models call it.
    name: String,
    /// What the server calls it.
    remote_name: String,
    #[schema(required)]
    title: Option<String>,
    /// In the server's words.
    description: String,
    /// `reads` or `acts`; acts unless the server is trusted and says otherwise.
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

/// A registered tool server. Of the fields of the two transports the other's are null. To a key that may only read, `url`
/// shows its server alone, and `args` how many there are: the rest may hold tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerView {
    id: ToolServerId,
    name: String,
    /// What the names of its tools begin with.
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
    /// The entry of the catalog that it was installed from.
    #[schema(required)]
    catalog_entry: Option<String>,
    /// On the daemon that answers.
    status: ServerStatus,
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// What it offered when it was asked last.
    tools: Vec<ToolServerTool>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<ToolServerState> for ToolServerView {
    fn from(state: ToolServerState) -> Self {
        let (tools, server) = (tools(&state), &state.server);
        let (stdio, http) = match &server.reach {
            Reach::Stdio(stdio) => (Some(stdio), None),
            Reach::Http(http) => (None, Some(http)),
        };
        Self {
            id: server.id.clone(),
            name: server.name.clone(),
            tool_prefix: server.prefix.clone(),
            transport: server.reach.kind(),
            command: stdio.map(|stdio| stdio.command.clone()),
            args: stdio.map(|stdio| stdio.args.clone()),
            env: stdio.map(|stdio| shown_names(&stdio.env, &state.missing)),
            network: stdio.map(|stdio| stdio.network),
            readable_paths: stdio.map(|stdio| stdio.readable_paths.clone()),
            writable_paths: stdio.map(|stdio| stdio.writable_paths.clone()),
            url: http.map(|http| http.url.clone()),
            headers: http.map(|http| shown_names(&http.headers, &state.missing)),
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
    /// As the caller may see it: paths, queries and arguments may hold tokens.
    pub(super) fn shown_to(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Full {
            return self;
        }
        self.url = self.url.map(|url| server_of(&url).unwrap_or_else(|| "?".to_owned()));
        self.args.iter_mut().flatten().for_each(|argument| HIDDEN.clone_into(argument));
        self
    }
}

/// Every tool server, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerList {
    pub(super) servers: Vec<ToolServerView>,
    pub(super) total: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerDeleted {
    /// Always true.
    pub(super) deleted: bool,
}

/// A tool that cannot be offered, and why.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeftOutTool {
    name: String,
    /// Completes "left out, because".
    reason: String,
}

impl From<LeftOut> for LeftOutTool {
    fn from(tool: LeftOut) -> Self {
        Self { name: tool.name, reason: tool.reason }
    }
}

/// A tool with the schema of its input.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTool {
    #[serde(flatten)]
    tool: ToolServerTool,
    #[schema(value_type = Object)]
    input_schema: Value,
}

/// What a server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiscoveredTools {
    /// In the server's order.
    tools: Vec<DiscoveredTool>,
    total: usize,
    left_out: Vec<LeftOutTool>,
    /// Why the list ends before the server's does.
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

/// How it stands with a server, on the daemon that answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerStatusView {
    id: ToolServerId,
    status: ServerStatus,
    #[schema(required)]
    error: Option<ToolServerProblem>,
    /// What it says of itself.
    #[schema(required)]
    server: Option<ServerIdentity>,
    /// How many tools agents are offered of it.
    tools: usize,
    left_out: Vec<LeftOutTool>,
    /// When it was last asked for its tools and they had changed.
    #[schema(required)]
    listed_at: Option<Timestamp>,
    #[schema(required)]
    connected_at: Option<Timestamp>,
    #[schema(required)]
    last_used_at: Option<Timestamp>,
    /// After a failure: calls do not try before this.
    #[schema(required)]
    retry_at: Option<Timestamp>,
    /// How often it died or was unreachable while it was connected.
    losses: u64,
    /// Of the sandbox around the program.
    #[schema(required)]
    process_id: Option<u32>,
    /// The sandbox that the program runs in.
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

/// What a try found.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolServerTestView {
    /// Whether the server connected and said what it offers.
    ok: bool,
    latency_ms: u64,
    /// What it says of itself; only when `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ServerIdentity, required = false)]
    server: Option<ServerIdentity>,
    /// What it offers; only when `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<ToolServerTool>, required = false)]
    tools: Option<Vec<ToolServerTool>>,
    /// Why it failed; only when not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
    /// The kind of failure; only when not `ok`.
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

/// The answer that a repeat of a creation gets again.
pub(super) fn created(server: &ToolServer) -> ToolServerView {
    ToolServerView::from(ToolServerState::fresh(server))
}
