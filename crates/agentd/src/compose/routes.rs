//! What the daemon answers: every domain's routes, and the document of them all.

use agentd_web::{Routes, complete_document};
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::{Components, OpenApi, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Services;
use crate::skills::ExportedSkills;
use crate::web_ui::Pages;
use crate::{
    agents, auth, channels, chat, devices, hooks, memory, monitoring, notify, proactive, projects, providers,
    scheduler, settings, setup, skills, web_ui, webhooks,
};

/// The routes of every domain, their states given.
pub(super) fn routes(services: &Services) -> Routes {
    Routes::new()
        .merge(web_ui::routes().with_state(Pages { document }))
        .merge(monitoring::routes().with_state(services.monitoring.clone()))
        .merge(settings::routes().with_state(services.settings.clone()))
        .merge(auth::routes().with_state(services.auth.clone()))
        .merge(providers::routes().with_state(services.providers.clone()))
        .merge(agents::routes().with_state(services.agents.clone()))
        .merge(skills::routes().with_state(services.tools.clone()))
        .merge(projects::routes().with_state(services.projects.clone()))
        .merge(chat::routes().with_state(services.chat.clone()))
        .merge(devices::routes().with_state(services.devices.clone()))
        .merge(setup::routes().with_state(services.setup.clone()))
        .merge(notify::routes().with_state(services.notify.clone()))
        .merge(channels::routes().with_state(services.settings.settings.clone()))
        .merge(memory::routes().with_state(services.memory.clone()))
        .merge(scheduler::routes().with_state(services.scheduler.clone()))
        .merge(proactive::routes().with_state(services.proactive.clone()))
        .merge(webhooks::routes().with_state(services.webhooks.clone()))
        .merge(hooks::routes().with_state(services.hooks.clone()))
}

/// Names of schemas that stand for one thing here and for another there: one of them would be lost.
fn clashing<'d>(document: &'d OpenApi, part: &OpenApi) -> Vec<&'d str> {
    let (Some(here), Some(there)) = (&document.components, &part.components) else { return Vec::new() };
    let is_other =
        |(name, schema): &(&String, &RefOr<Schema>)| there.schemas.get(*name).is_some_and(|other| other != *schema);
    here.schemas.iter().filter(is_other).map(|(name, _)| name.as_str()).collect()
}

/// The OpenAPI document, from the code alone.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = web_ui::routes().into_document();
    for part in [
        monitoring::routes().into_document(),
        settings::routes().into_document(),
        auth::routes().into_document(),
        providers::routes().into_document(),
        agents::routes().into_document(),
        skills::routes().into_document(),
        projects::routes().into_document(),
        chat::routes().into_document(),
        devices::routes().into_document(),
        setup::routes().into_document(),
        notify::routes().into_document(),
        channels::routes().into_document(),
        memory::routes().into_document(),
        scheduler::routes().into_document(),
        proactive::routes().into_document(),
        webhooks::routes().into_document(),
        hooks::routes().into_document(),
    ] {
        debug_assert!(
            clashing(&document, &part).is_empty(),
            "two schemas of one name: {:?}",
            clashing(&document, &part)
        );
        document.merge(part);
    }
    // No operation of its own answers it, `GET /api/settings` does.
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
    document
}
