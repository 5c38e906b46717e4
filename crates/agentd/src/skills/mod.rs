//! Skills: what an agent can do besides talking. A [`Tool`] is one such thing; [`Skills`] knows
//! where tools come from and offers an agent those that it may use. Two sources are here: the tools
//! that come with the daemon (`builtin`) and those that the owner makes (`custom`); code of both
//! runs in the sandbox, whose settings are here too.
//!
//! Invariants
//! - A tool is offered only when it is switched on and the agent's profile permits it.
//! - An input reaches a tool only after it was held against the tool's schema.
//! - Each tool declares who wrote its description and who writes its results; what no trusted author wrote is marked
//!   where it enters a prompt.
//! - Names are unique in what is offered: of two tools with one name, the source that was
//!   registered first wins.
//!
//! Deliberately absent: when a tool runs, in which order and after whose approval; that is the
//! engine's.

mod builtin;
mod custom;
mod error;
mod foreign;
mod offer;
mod output;
mod portable;
mod routes;
mod sandbox;
mod schema;
mod servers;
mod service;
mod tool;
mod transfer;
mod workspace;

use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

pub use builtin::{BuiltinTool, BuiltinTools, JoinsBuiltin};
pub use custom::{
    CustomTool, CustomToolChange, CustomToolId, CustomTools, HttpMethod, HttpRequestChange, HttpToolRequest,
    ListedTool, ToolKind, carries_credential,
};
pub use error::SkillError;
pub use foreign::{ATTACHMENTS, DOWNLOADS};
pub use offer::Offer;
pub use output::KeptOutput;
pub use portable::{ExportedSkills, PortableSkills};
pub use routes::{SkillsRoutes, routes};
pub use sandbox::{
    CheckSandbox, CodeOutcome, CodeRunner, INIT_SUBCOMMAND, Interpreter, PythonAnswer, PythonError, PythonJob,
    SandboxBackend, SandboxSettings, SandboxState,
};
pub use schema::InputSchema;
pub use servers::{
    CallCounts, Failure, HttpReach, Installation, LeftOut, Listing, OfferedTool, Reach, SecretChanges, ServerIdentity,
    ServerStatus, StdioReach, TestReport, ToolServer, ToolServerChange, ToolServerError, ToolServerId,
    ToolServerMaintenance, ToolServerState, ToolServers, TransportKind,
};
pub use service::Skills;
pub use tool::{
    Author, Consequence, Effect, MAX_READ_CHARACTERS, Share, Tool, ToolCallContext, ToolDescription, ToolError,
    ToolOutput, ToolSource, UntrustedSource, fingerprint_of,
};
pub use transfer::WorkspaceFile;
pub use workspace::{
    Entry, EntryKind, Expected, Held, NewFile, OpenFile, RelativePath, Room, Usage, Version, Workspace, WorkspaceError,
};

impl Domain for SkillsRoutes {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(CheckSandbox(self.runner.clone()));
        workers.add(ToolServerMaintenance(self.servers.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Tool servers that this daemon has a session with.";
        metrics.read(Family::gauge("svc_tool_servers_connected", help), &self.servers, async |servers| {
            Ok(Sample::one(u64::try_from(servers.connected())?))
        });
        let help = "Calls of tools of tool servers by how they ended, since the daemon started.";
        let family = Family::counter("svc_tool_server_calls_total", help).by(&["status"]);
        metrics.read(family, &self.servers, async |servers| {
            let counts = servers.call_counts();
            Ok(Sample::each([
                ("ok", counts.ok),
                ("failed", counts.failed),
                ("timed_out", counts.timed_out),
                ("cancelled", counts.cancelled),
            ]))
        });
    }
}
