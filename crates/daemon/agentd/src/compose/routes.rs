//! What the daemon answers: every domain's routes, and the document of them all.

use agentd_engine::tool_servers::ExportedSkills;
use agentd_operations::web_ui::Pages;
use agentd_web::{Routes, complete_document};
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::{Components, OpenApi, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Services;
use agentd_automation::{hooks, notify, proactive, scheduler, webhooks};
use agentd_conversation::{chat, memory};
use agentd_core::{auth, events, settings};
use agentd_engine::{agents, code_runner, files, projects, providers, tool_servers, tools};
use agentd_integrations::{browser, channels, devices};
use agentd_operations::{alerts, backup, monitoring, setup, web_ui};

/// Every domain that answers requests, once: with the state of its handlers.
macro_rules! domains {
    ($($domain:ident => $state:expr,)+) => {
        /// The routes of every domain, their states given.
        pub(super) fn routes(services: &Services) -> Routes {
            Routes::new()$(.merge($domain::routes().with_state({
                let state: fn(&Services) -> _ = $state;
                state(services)
            })))+
        }

        fn documents() -> Vec<OpenApi> {
            vec![$($domain::routes().into_document()),+]
        }
    };
}

domains! {
    web_ui => |_services| Pages { document },
    monitoring => |services| services.monitoring.clone(),
    settings => |services| services.settings.clone(),
    auth => |services| services.auth.clone(),
    providers => |services| services.providers.clone(),
    agents => |services| services.agents.clone(),
    files => |services| services.files.clone(),
    tools => |services| services.tool_routes.clone(),
    tool_servers => |services| services.tool_servers.clone(),
    code_runner => |services| services.code_runner.clone(),
    projects => |services| services.projects.clone(),
    chat => |services| services.chat.clone(),
    events => |services| services.events.clone(),
    devices => |services| services.devices.clone(),
    setup => |services| services.setup.clone(),
    notify => |services| services.notify.clone(),
    channels => |services| services.channels.clone(),
    memory => |services| services.memory.clone(),
    scheduler => |services| services.scheduler.clone(),
    proactive => |services| services.proactive.clone(),
    webhooks => |services| services.webhooks.clone(),
    hooks => |services| services.hooks.clone(),
    browser => |services| services.browser.clone(),
    alerts => |services| services.alerts.clone(),
    backup => |services| services.backups.clone(),
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
    let mut documents = documents().into_iter();
    let mut document = documents.next().unwrap_or_default();
    for part in documents {
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
