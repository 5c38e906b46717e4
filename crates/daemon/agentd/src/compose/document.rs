//! The OpenAPI document of all domains.

use agentd_engine::tool_servers::ExportedSkills;
use agentd_web::{Routes, complete_document};
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::{Components, OpenApi};
use utoipa::{PartialSchema, ToSchema};

use super::examples::add_examples;

/// Returns a function that builds the OpenAPI document of these routes.
pub(super) fn describe(routes: &Routes) -> impl Fn() -> OpenApi + Send + Sync + use<> {
    let document = routes.document();
    move || {
        let mut document = document();
        // Added explicitly: no operation names this schema, but `GET /api/settings` returns it.
        let mut exported = vec![(ExportedSkills::name().into_owned(), ExportedSkills::schema())];
        ExportedSkills::schemas(&mut exported);
        document.components.get_or_insert_with(Components::new).schemas.extend(exported);
        document.info = InfoBuilder::new()
            .title("agentd")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some("A self-hosted daemon that hosts AI agents."))
            .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
            .build();
        complete_document(&mut document);
        add_examples(&mut document);
        document
    }
}
