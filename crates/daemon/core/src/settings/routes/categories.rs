//! Reading, changing and resetting settings.

use std::sync::Arc;

use agentd_web::{Answer, Caller, Json, Scope};
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::settings::model::{
    AgentPatch, EmailPatch, InterfacePatch, ProactivePatch, ProfilePatch, SecurityPatch, StrategyPatch,
};
use crate::settings::section::{PartialObject, ResetGroup};
use crate::settings::{
    AgentSettings, EmailSettings, InterfaceSettings, ProactiveSettings, ProfileSettings, SecuritySettings, Settings,
    StrategySettings,
};

/// The state of the handlers.
#[derive(Debug, Clone)]
pub(in crate::settings) struct SettingsRoutes {
    pub(in crate::settings) settings: Settings,
    pub(in crate::settings) clock: agentd_base::Clock,
}

/// Every category under its name, as its own endpoint answers it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct AllSettings(pub(super) Map<String, Value>);

impl PartialSchema for AllSettings {
    fn schema() -> RefOr<Schema> {
        let category = ObjectBuilder::new().schema_type(utoipa::openapi::Type::Object).build();
        let mut object = ObjectBuilder::new()
            .schema_type(utoipa::openapi::Type::Object)
            .description(Some("Every category under its name, as its own endpoint answers it."))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(category)))));
        let names = [
            ("profile", ProfileSettings::name()),
            ("interface", InterfaceSettings::name()),
            ("security", SecuritySettings::name()),
            ("agent", AgentSettings::name()),
            ("strategy", StrategySettings::name()),
            ("proactive", ProactiveSettings::name()),
            ("email", EmailSettings::name()),
            // Of domains that this one does not know; a test looks that they are there.
            ("backup", "BackupSettings".into()),
            ("browser", "BrowserSettings".into()),
            ("channels", "ChannelSettings".into()),
            ("memory", "MemorySettings".into()),
            ("sandbox", "SandboxSettings".into()),
            ("skills", "ExportedSkills".into()),
        ];
        for (name, schema) in names {
            object = object.property(name, Ref::from_schema_name(schema)).required(name);
        }
        object.into()
    }
}

impl ToSchema for AllSettings {
    fn name() -> std::borrow::Cow<'static, str> {
        "AllSettings".into()
    }
}

/// Everything in force
///
/// All categories at once, `skills` (switched-off tools, custom tools, tool servers) among them. Secrets are shown
/// as `{"set": true}`. To a key that may only read, of tools and tool servers is shown what their own endpoints show.
#[utoipa::path(get, path = "/api/settings", tag = "settings", responses((status = 200, body = AllSettings)))]
pub(super) async fn list_settings(State(state): State<SettingsRoutes>, caller: Caller) -> Answer<AllSettings> {
    let mut all = state.settings.view_all().await?;
    if caller.scope == Scope::Read {
        state.settings.conceal(&mut all);
    }
    Ok(Json(AllSettings(all)))
}

#[rustfmt::skip]
macro_rules! category {
    ($path:literal, $get:ident, $get_summary:literal, $put:ident, $put_summary:literal, $section:ty, $patch:ty) => {
        #[doc = $get_summary]
        #[utoipa::path(get, path = $path, tag = "settings", responses((status = 200, body = $section)))]
        pub(super) async fn $get(State(state): State<SettingsRoutes>) -> Answer<Arc<$section>> {
            Ok(Json(state.settings.get().await?))
        }

        #[doc = $put_summary]
        ///
        /// Takes any of the fields and answers the whole category, in force from now on. `null`
        /// clears what may be empty. A field that is not known is refused.
        #[utoipa::path(
            put, path = $path, tag = "settings", request_body = $patch,
            responses((status = 200, body = $section)),
        )]
        pub(super) async fn $put(
            State(state): State<SettingsRoutes>,
            Json(change): Json<PartialObject>,
        ) -> Answer<Arc<$section>> {
            Ok(Json(state.settings.update(change).await?))
        }
    };
}

category!(
    "/api/settings/profile",
    get_profile_settings,
    "Who the owner is",
    update_profile_settings,
    "Changes the profile",
    ProfileSettings,
    ProfilePatch
);
category!(
    "/api/settings/interface",
    get_interface_settings,
    "Language, dates, and what is shown",
    update_interface_settings,
    "Changes language, dates, or what is shown",
    InterfaceSettings,
    InterfacePatch
);
category!(
    "/api/settings/security",
    get_security_settings,
    "Sessions, logins, approvals, addresses",
    update_security_settings,
    "Changes the security settings",
    SecuritySettings,
    SecurityPatch
);
category!(
    "/api/settings/agent",
    get_agent_settings,
    "Models, limits and budgets",
    update_agent_settings,
    "Changes models, limits or budgets",
    AgentSettings,
    AgentPatch
);
category!(
    "/api/settings/strategy",
    get_strategy_settings,
    "How a turn goes about its work",
    update_strategy_settings,
    "Changes how a turn goes about its work",
    StrategySettings,
    StrategyPatch
);
category!(
    "/api/settings/proactive",
    get_proactive_settings,
    "When agents may begin by themselves",
    update_proactive_settings,
    "Changes when agents may begin by themselves",
    ProactiveSettings,
    ProactivePatch
);
category!(
    "/api/settings/email",
    get_email_settings,
    "The mail server",
    update_email_settings,
    "Changes the mail server",
    EmailSettings,
    EmailPatch
);

/// Puts the general settings back to their defaults
///
/// Everything but profile, email, security, skills, channels and the sandbox: those settings stay as they are.
#[utoipa::path(post, path = "/api/settings/reset", tag = "settings", responses((status = 200, body = AllSettings)))]
pub(super) async fn reset_settings(State(state): State<SettingsRoutes>) -> Answer<AllSettings> {
    Ok(Json(AllSettings(state.settings.reset(ResetGroup::General).await?)))
}

/// Puts the security settings back to their defaults
#[utoipa::path(
    post, path = "/api/settings/security/reset", tag = "settings",
    responses((status = 200, body = SecuritySettings)),
)]
pub(super) async fn reset_security_settings(State(state): State<SettingsRoutes>) -> Answer<SecuritySettings> {
    state.settings.reset(ResetGroup::Security).await?;
    Ok(Json(SecuritySettings::default()))
}
