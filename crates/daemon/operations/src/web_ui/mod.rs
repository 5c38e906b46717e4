//! Web UI and API documentation. If the UI was not built, a start page with the first steps is served instead.
//!
//! Invariant: everything is served by the daemon itself; nothing is loaded from other hosts.

mod documentation;
mod page;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;
use agentd_web::{ApiRouter, Routes, routes};

pub use documentation::{DescribeApi, Pages};
pub use page::page_of;

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

/// Returns the routes of the pages and the document, which are public.
fn routes() -> Routes<Pages> {
    Routes::new().public(
        ApiRouter::new()
            .routes(routes!(page::get_page, documentation::show_docs, documentation::get_openapi))
            .route("/api/docs/", axum::routing::get(documentation::show_docs))
            .route("/api/docs/{*file}", axum::routing::get(documentation::show_file)),
    )
}
