//! Tool servers: programs and web services that offer tools over the Model Context Protocol. The registrations of the
//! owner are stored here. Servers are connected on demand, and their tools are offered to agents as `<prefix>_<tool>`.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `disabled` | its tools are not offered | `enabled` |
//! | `disconnected` | no session; a call, `connect` or `discover` connects | a call or request |
//! | `connecting` | started, handshake in progress | its end, or the time limit |
//! | `connected` | a session is open | ten minutes without a call, `disconnect`, a change, a crash |
//! | `disconnecting` | the program is being stopped | its exit |
//! | `failed` | the last attempt failed, or the server crashed; retried with backoff | the next attempt |
//!
//! Invariants
//! - A program runs only in the sandbox, with its own home folder under `tool-servers/` in the data directory. It has
//!   no network access and no access to other files unless its registration grants it. It never outlives the daemon.
//! - One task supervises each server, with a bounded command queue. Calls bypass it: a server that hangs or floods
//!   delays only its own callers, up to their time limit.
//! - Tools are offered from the last stored tool list, without a running program.
//! - A tool is treated as having side effects, unless the owner trusts the server and the server declares the tool
//!   read-only.
//! - Values of variables and headers are write-only: encrypted, passed only to the server, and redacted from its error
//!   output. If their destination changes, they must be entered again.
//! - Each replica runs its own processes; a change of a registration reaches all replicas.
//!
//! Out of scope: the protocol (`agentd-mcp`), the sandbox (`agentd-sandbox`), OAuth, and prompts, resources and
//! sampling.

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
mod registrations;
mod routes;
mod secrets;
mod service;
mod sessions;
mod state;
mod store;
mod supervisor;
mod tool;
mod transport;
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
pub use listing::{Listing, OfferedTool, ServerIdentity, SkippedTool};
pub use model::ToolServer;
pub use portable::{ExportedSkills, PortableSkills};
pub use routes::ToolServerRoutes;
pub use service::ToolServers;
pub use state::{CallCounts, TestReport, ToolServerState};
pub(crate) use transport::secret_states;
pub use transport::{HttpTransport, StdioTransport, Transport};
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
        let help = "Tool servers with an open session on this daemon.";
        metrics.read(Family::gauge("svc_tool_servers_connected", help), &self.servers, async |servers| {
            Ok(Sample::one(u64::try_from(servers.connected())?))
        });
        let help = "Tool server calls by outcome since the daemon started.";
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
