//! What a browser sees: the page, or the start page with the first steps where that was not built, and the
//! documentation of the API.
//!
//! Invariant: everything comes from the daemon itself; nothing is loaded from anywhere else.

mod documentation;
mod page;

use std::sync::{Arc, OnceLock};

use agentd_core::parts::{Detached, Domain, DomainParts};
use agentd_core::runtime::{MetricList, Slot, Slots};
use agentd_web::{ApiRouter, Routes, routes};
use bytes::Bytes;
use utoipa::openapi::OpenApi;

pub use page::page_of;

/// Makes the OpenAPI document of the daemon.
pub type DescribeApi = dyn Fn() -> OpenApi + Send + Sync;

/// The pages. The document is made when it is first asked for, so that the start of the daemon does not wait for it.
#[derive(Debug, Clone)]
pub struct Pages {
    describe: Slot<DescribeApi>,
    document: Arc<OnceLock<Bytes>>,
}

impl Pages {
    pub fn new(slots: &mut Slots) -> Detached<Self> {
        Detached::new(Self { describe: slots.create(), document: Arc::default() })
    }

    /// The document as JSON.
    fn document(&self) -> Bytes {
        let json = || Some(Bytes::from(self.describe.get()?().to_json().ok()?));
        self.document.get_or_init(|| json().unwrap_or_default()).clone()
    }
}

impl Domain for Pages {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}

/// The pages and the document; all public.
fn routes() -> Routes<Pages> {
    Routes::new().public(
        ApiRouter::new()
            .routes(routes!(page::get_page, documentation::show_docs, documentation::get_openapi))
            .route("/api/docs/", axum::routing::get(documentation::show_docs))
            .route("/api/docs/{*file}", axum::routing::get(documentation::show_file)),
    )
}
