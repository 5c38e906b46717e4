//! Tools: what an agent can do besides talking. [`Tools`] knows the sources of tools and offers an agent those that it may
//! use. Two sources are here: the tools that come with the daemon (`builtin`) and those that the owner makes (`custom`).
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
mod offer;
mod output;
mod routes;
mod schema;
mod sent_back;
mod service;
mod tool;
mod transfer;

use std::sync::Arc;

use agentd_core::parts::{Detached, Domain, DomainParts};
use agentd_core::runtime::{Binding, MetricList};

use routes::routes;

pub(crate) use builtin::store::list_switched_off;
pub use builtin::{BuiltinTool, BuiltinTools, JoinsBuiltin};
pub(crate) use custom::store::{CUSTOM_TOOLS, list_custom_tools};
pub use custom::{
    CustomTool, CustomToolChange, CustomToolId, CustomTools, HttpMethod, HttpRequestChange, HttpToolRequest,
    ListedTool, ToolKind, carries_credential,
};
pub use error::ToolsError;
pub use offer::Offer;
pub use output::KeptOutput;
pub use routes::ToolRoutes;
pub use schema::InputSchema;
pub(crate) use sent_back::{Change, SentBack};
pub(crate) use service::MAX_TOOLS;
pub use service::Tools;
pub use tool::{
    Author, Consequence, Effect, MAX_READ_CHARACTERS, Share, Tool, ToolCallContext, ToolDescription, ToolError,
    ToolOutput, ToolSource, fingerprint_of,
};
pub use transfer::WorkspaceFile;

impl ToolRoutes {
    pub fn new(builtin: BuiltinTools, custom: CustomTools) -> Detached<Self> {
        Detached::new(Self { builtin, custom })
    }
}

impl Domain for ToolRoutes {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn ToolSource>(Arc::new(self.builtin.clone())),
                Binding::new::<dyn ToolSource>(Arc::new(self.custom.clone())),
            ],
            shutdown: Vec::new(),
        }
    }
}
