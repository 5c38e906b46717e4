//! Endpoints for reading, changing and resetting settings.

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

/// State of the handlers.
#[derive(Debug, Clone)]
pub(in crate::settings) struct SettingsRoutes {
    pub(in crate::settings) settings: Settings,
    pub(in crate::settings) clock: agentd_base::Clock,
}

/// All categories by name, in the format of their own endpoints.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct AllSettings(pub(super) Map<String, Value>);

impl PartialSchema for AllSettings {
    fn schema() -> RefOr<Schema> {
        let category = ObjectBuilder::new().schema_type(utoipa::openapi::Type::Object).build();
        let mut object = ObjectBuilder::new()
            .schema_type(utoipa::openapi::Type::Object)
            .description(Some("All categories by name, in the format of their own endpoints."))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(category)))));
        let names = [
            ("profile", ProfileSettings::name()),
            ("interface", InterfaceSettings::name()),
            ("security", SecuritySettings::name()),
            ("agent", AgentSettings::name()),
            ("strategy", StrategySettings::name()),
            ("proactive", ProactiveSettings::name()),
            ("email", EmailSettings::name()),
            // Schemas of higher domains; a test checks that they exist.
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

/// List all settings
///
/// Returns all categories, including `skills` (disabled tools, custom tools, tool servers). Secrets are shown as
/// `{"set": true}`. Keys with the scope `read` see only those fields of tools and tool servers that their own endpoints
/// return.
#[utoipa::path(get, path = "/api/settings", tag = "settings", responses((status = 200, body = AllSettings)))]
pub(super) async fn list_settings(State(state): State<SettingsRoutes>, caller: Caller) -> Answer<AllSettings> {
    let mut all = state.settings.view_all().await?;
    if caller.scope == Scope::Read {
        state.settings.redact_for_read_scope(&mut all);
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
        #[doc = ""]
        #[doc = "Accepts any subset of the fields and returns the whole category. Changes take effect immediately. `null`"]
        #[doc = "clears a nullable field. Unknown fields are rejected."]
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
    "Get profile settings",
    update_profile_settings,
    "Update profile settings",
    ProfileSettings,
    ProfilePatch
);
category!(
    "/api/settings/interface",
    get_interface_settings,
    "Get interface settings",
    update_interface_settings,
    "Update interface settings",
    InterfaceSettings,
    InterfacePatch
);
category!(
    "/api/settings/security",
    get_security_settings,
    "Get security settings",
    update_security_settings,
    "Update security settings",
    SecuritySettings,
    SecurityPatch
);
category!(
    "/api/settings/agent",
    get_agent_settings,
    "Get agent settings",
    update_agent_settings,
    "Update agent settings",
    AgentSettings,
    AgentPatch
);
category!(
    "/api/settings/strategy",
    get_strategy_settings,
    "Get strategy settings",
    update_strategy_settings,
    "Update strategy settings",
    StrategySettings,
    StrategyPatch
);
category!(
    "/api/settings/proactive",
    get_proactive_settings,
    "Get proactive settings",
    update_proactive_settings,
    "Update proactive settings",
    ProactiveSettings,
    ProactivePatch
);
category!(
    "/api/settings/email",
    get_email_settings,
    "Get email settings",
    update_email_settings,
    "Update email settings",
    EmailSettings,
    EmailPatch
);

/// Reset general settings
///
/// Restores the defaults of all categories except profile, email, security, skills, channels and sandbox.
#[utoipa::path(post, path = "/api/settings/reset", tag = "settings", responses((status = 200, body = AllSettings)))]
pub(super) async fn reset_settings(State(state): State<SettingsRoutes>) -> Answer<AllSettings> {
    Ok(Json(AllSettings(state.settings.reset(ResetGroup::General).await?)))
}

/// Reset security settings
///
/// Restores the defaults of the security settings.
#[utoipa::path(
    post, path = "/api/settings/security/reset", tag = "settings",
    responses((status = 200, body = SecuritySettings)),
)]
pub(super) async fn reset_security_settings(State(state): State<SettingsRoutes>) -> Answer<SecuritySettings> {
    state.settings.reset(ResetGroup::Security).await?;
    Ok(Json(SecuritySettings::default()))
}
