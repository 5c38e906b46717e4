//! What a browser sees: the page, or the start page with the first steps where that was not built, and the
//! documentation of the API.
//!
//! Invariant: everything comes from the daemon itself; nothing is loaded from anywhere else.

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

/// The pages and the document; all public.
fn routes() -> Routes<Pages> {
    Routes::new().public(
        ApiRouter::new()
            .routes(routes!(page::get_page, documentation::show_docs, documentation::get_openapi))
            .route("/api/docs/", axum::routing::get(documentation::show_docs))
            .route("/api/docs/{*file}", axum::routing::get(documentation::show_file)),
    )
}
