//! Tool servers: programs and web services that offer tools over the Model Context Protocol. What
//! the owner registered is kept here, connected to when it is needed, and offered to agents as
//! `<prefix>_<tool>`.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `disabled` | its tools are not offered | `enabled` |
//! | `disconnected` | nothing runs; a call, `connect` or `discover` connects | being needed |
//! | `connecting` | started, handshake under way | its end, or the time limit |
//! | `connected` | a session stands | ten minutes without a call, `disconnect`, a change, its death |
//! | `disconnecting` | the program is being ended | its end |
//! | `failed` | the last try failed, or the server died; tried again after a pause that grows | the next try |
//!
//! Invariants
//! - A program runs in the sandbox alone, with a folder of its own under `tool-servers/` in the data
//!   directory as its home; it reaches no network and no other file unless its registration says so.
//!   It never outlives the daemon.
//! - One task supervises each server, behind a bounded queue. Calls go past it: a server that hangs
//!   or floods costs its own callers their time limit and others nothing.
//! - Tools are offered from what was stored of the last list, without a running program.
//! - A tool acts, unless the owner trusts the server and the server says that the tool only reads.
//! - Values of variables and headers are write-only: sealed, handed to the server alone, cut out of
//!   what it writes on its error output. Who changes where they would go enters them again.
//! - Each replica has processes of its own; a change of a registration reaches them all.
//!
//! Deliberately absent: the protocol (`agentd-mcp`), the sandbox (`agentd-sandbox`), OAuth, and
//! prompts, resources and sampling.

mod change;
mod connect;
mod error;
mod install;
mod link;
mod listing;
mod listings;
mod load;
mod model;
mod names;
mod portable;
mod reach;
mod registrations;
mod routes;
mod secrets;
mod service;
mod sessions;
mod state;
mod store;
mod supervisor;
mod tool;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Detached, Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, Sample};
use agentd_core::settings::PortableSection;

use crate::tools::{BuiltinTools, CustomTools, ToolSource};
use routes::routes;

pub use change::{SecretChanges, ToolServerChange, ToolServerId, TransportKind};
pub use error::{Failure, ToolServerError};
pub use install::Installation;
pub use link::ServerStatus;
pub use listing::{LeftOut, Listing, OfferedTool, ServerIdentity};
pub use model::ToolServer;
pub use portable::{ExportedSkills, PortableSkills};
pub(crate) use reach::shown_names;
pub use reach::{HttpReach, Reach, StdioReach};
pub use routes::ToolServerRoutes;
pub use service::ToolServers;
pub use state::{CallCounts, TestReport, ToolServerState};
pub use worker::ToolServerMaintenance;

impl Domain for ToolServerRoutes {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(ToolServerMaintenance(self.servers.clone()))],
            metrics: self.metrics(),
            bindings: vec![
                Binding::new::<dyn ToolSource>(Arc::new(self.servers.clone())),
                Binding::new::<dyn PortableSection>(Arc::new(PortableSkills::new(
                    &self.builtin,
                    &self.custom,
                    &self.servers,
                ))),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, &self.servers, async |servers, _| {
                servers.shut_down().await
            })],
        }
    }
}

impl ToolServerRoutes {
    pub fn new(servers: ToolServers, builtin: BuiltinTools, custom: CustomTools) -> Detached<Self> {
        Detached::new(Self { servers, builtin, custom })
    }

    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
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
        metrics
    }
}
