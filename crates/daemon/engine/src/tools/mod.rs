//! Tools that agents can call. [`Tools`] collects the tool sources and offers an agent the tools that it may use. This
//! module provides two sources: built-in tools (`builtin`) and tools that the owner defines (`custom`).
//!
//! Invariants
//! - A tool is offered only if it is enabled and the agent's profile permits it.
//! - An input reaches a tool only after it was validated against the tool's schema.
//! - Each tool declares the author of its description and of its results; text of an untrusted author is marked where
//!   it enters a prompt.
//! - Names are unique within an offer: of two tools with one name, the source that was registered first wins.
//!
//! Out of scope: when a tool runs, in which order and after whose approval. The engine decides that.

mod builtin;
mod custom;
mod error;
mod offer;
mod output;
mod patch_body;
mod routes;
mod schema;
mod service;
mod tool;
mod transfer;

use std::sync::Arc;

use agentd_core::parts::{Detached, Domain, DomainParts};
use agentd_core::runtime::{Binding, MetricList};

use routes::routes;

pub(crate) use builtin::store::list_disabled_tools;
pub use builtin::{BuiltinTool, BuiltinToolProvider, BuiltinTools};
pub(crate) use custom::store::{CUSTOM_TOOLS, list_custom_tools};
pub use custom::{
    CustomTool, CustomToolChange, CustomToolId, CustomTools, HttpMethod, HttpRequestChange, HttpToolRequest,
    ListedTool, ToolKind, carries_credential,
};
pub use error::ToolsError;
pub use offer::Offer;
pub use output::StoredOutput;
pub(crate) use patch_body::{PatchBody, PatchFields};
pub use routes::ToolRoutes;
pub use schema::InputSchema;
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
