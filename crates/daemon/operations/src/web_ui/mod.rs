//! What a browser sees: the page, or the start page with the first steps where that was not built, and the
//! documentation of the API.
//!
//! Invariant: everything comes from the daemon itself; nothing is loaded from anywhere else.

mod documentation;
mod page;

use agentd_web::{ApiRouter, Routes, routes};

pub use documentation::Pages;
pub use page::page_of;

/// The pages and the document; all public.
#[must_use]
pub fn routes() -> Routes<Pages> {
    Routes::new().public(
        ApiRouter::new()
            .routes(routes!(page::get_page, documentation::show_docs, documentation::get_openapi))
            .route("/api/docs/", axum::routing::get(documentation::show_docs))
            .route("/api/docs/{*file}", axum::routing::get(documentation::show_file)),
    )
}
