//! What a browser sees: the start page with the first steps, and the documentation of the API.
//!
//! Invariant: everything comes from the daemon itself; nothing is loaded from anywhere else.

mod documentation;
mod start;

use agentd_web::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The pages and the document; all public.
#[must_use]
pub fn routes() -> Routes<()> {
    Routes::new().public(
        OpenApiRouter::new()
            .route("/", axum::routing::get(start::show))
            .route("/api/docs", axum::routing::get(documentation::show))
            .route("/api/docs/", axum::routing::get(documentation::show))
            .route("/api/docs/{*file}", axum::routing::get(documentation::show_file))
            .routes(routes!(documentation::get_openapi)),
    )
}
