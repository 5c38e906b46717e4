//! `/api/settings`.

mod avatar;

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_web::{ApiError, ApiRouter, Caller, ErrorBody, IdempotencyKey, Json, Routes, Scope, limits, routes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::error::SettingsError;
use super::model::{
    AgentPatch, EmailPatch, InterfacePatch, ProactivePatch, ProfilePatch, SecurityPatch, StrategyPatch,
};
use super::section::{PartialObject, ResetGroup};
use super::{
    AgentSettings, EmailSettings, ImportedSettings, InterfaceSettings, ProactiveSettings, ProfileSettings,
    SecuritySettings, Settings, StrategySettings,
};
use crate::runtime::record_once;

const EXPORT_FORMAT: u32 = 1;
/// Categories that decide what is allowed. A page session changes them only with a recently entered password.
const SAFETY_CATEGORIES: [&str; 2] = ["security", "sandbox"];

/// The state of the handlers.
#[derive(Debug, Clone)]
pub struct SettingsRoutes {
    pub settings: Settings,
    pub clock: agentd_base::Clock,
}

#[must_use]
pub fn routes() -> Routes<SettingsRoutes> {
    let protected = ApiRouter::new()
        .routes(routes!(list_settings))
        .routes(routes!(get_profile_settings, update_profile_settings))
        .routes(routes!(get_interface_settings, update_interface_settings))
        .routes(routes!(get_security_settings))
        .routes(routes!(update_security_settings).require_recent_password())
        .routes(routes!(get_agent_settings, update_agent_settings))
        .routes(routes!(get_strategy_settings, update_strategy_settings))
        .routes(routes!(get_proactive_settings, update_proactive_settings))
        .routes(routes!(get_email_settings, update_email_settings))
        .routes(routes!(reset_settings))
        .routes(routes!(reset_security_settings).require_recent_password())
        .routes(routes!(export_settings).accept_tickets())
        .routes(routes!(avatar::show_avatar));
    Routes::new()
        .protected(protected)
        .protected_up_to(
            limits::UPLOAD + avatar::MULTIPART_OVERHEAD,
            ApiRouter::new().routes(routes!(avatar::upload_avatar)),
        )
        .protected_up_to(limits::IMPORT, ApiRouter::new().routes(routes!(import_settings)))
}

type Answer<T> = Result<Json<T>, ApiError>;

/// Every category under its name, as its own endpoint answers it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllSettings(Map<String, Value>);

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

/// What an import has left: every category under its name, and what it could not keep.
#[derive(Debug, Serialize)]
struct ImportedView {
    #[serde(flatten)]
    settings: AllSettings,
    dropped_secrets: Vec<String>,
}

impl From<ImportedSettings> for ImportedView {
    fn from(imported: ImportedSettings) -> Self {
        Self { settings: AllSettings(imported.sections), dropped_secrets: imported.dropped_secrets }
    }
}

impl PartialSchema for ImportedView {
    fn schema() -> RefOr<Schema> {
        let mut schema = AllSettings::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let name = ObjectBuilder::new().schema_type(utoipa::openapi::Type::String);
            let description = "Secrets that must be entered again, such as `email.password`: what they are sent to came \
                               with the import.";
            let names = ArrayBuilder::new().items(name).description(Some(description)).build();
            object.properties.insert("dropped_secrets".to_owned(), RefOr::T(Schema::Array(names)));
            object.required.push("dropped_secrets".to_owned());
        }
        schema
    }
}

impl ToSchema for ImportedView {
    fn name() -> std::borrow::Cow<'static, str> {
        "ImportedSettings".into()
    }
}

/// Everything in force
///
/// All categories at once, `skills` (switched-off tools, custom tools, tool servers) among them. Secrets are shown
/// as `{"set": true}`. To a key that may only read, of tools and tool servers is shown what their own endpoints show.
#[utoipa::path(get, path = "/api/settings", tag = "settings", responses((status = 200, body = AllSettings)))]
async fn list_settings(State(state): State<SettingsRoutes>, caller: Caller) -> Answer<AllSettings> {
    let mut all = state.settings.view_all().await?;
    if caller.scope == Scope::Read {
        state.settings.conceal(&mut all);
    }
    Ok(Json(AllSettings(all)))
}

macro_rules! category {
    ($path:literal, $get:ident, $get_summary:literal, $put:ident, $put_summary:literal, $section:ty, $patch:ty) => {
        #[doc = $get_summary]
        #[utoipa::path(get, path = $path, tag = "settings", responses((status = 200, body = $section)))]
        async fn $get(State(state): State<SettingsRoutes>) -> Answer<Arc<$section>> {
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
        async fn $put(State(state): State<SettingsRoutes>, Json(change): Json<PartialObject>) -> Answer<Arc<$section>> {
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
async fn reset_settings(State(state): State<SettingsRoutes>) -> Answer<AllSettings> {
    Ok(Json(AllSettings(state.settings.reset(ResetGroup::General).await?)))
}

/// Puts the security settings back to their defaults
#[utoipa::path(
    post, path = "/api/settings/security/reset", tag = "settings",
    responses((status = 200, body = SecuritySettings)),
)]
async fn reset_security_settings(State(state): State<SettingsRoutes>) -> Answer<SecuritySettings> {
    state.settings.reset(ResetGroup::Security).await?;
    Ok(Json(SecuritySettings::default()))
}

/// What an export holds, and an import takes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    /// The version of this format, 1.
    #[serde(default = "export_format")]
    #[schema(minimum = 1, required = false)]
    format: u32,
    /// When it was made; not looked at by an import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 64)]
    exported_at: Option<String>,
    /// Every category under its name.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
}

fn export_format() -> u32 {
    EXPORT_FORMAT
}

/// All settings as a file
///
/// Without API keys and other secrets, and without the avatar's picture.
#[utoipa::path(
    get, path = "/api/settings/export", tag = "settings",
    responses((status = 200, body = SettingsFile, headers(
        ("Content-Disposition" = String, description = "Names the file, `agentd-settings.json`"),
    ))),
)]
async fn export_settings(State(state): State<SettingsRoutes>, caller: Caller) -> Result<Response, ApiError> {
    let mut settings = state.settings.export().await?;
    if caller.scope == Scope::Read {
        state.settings.conceal(&mut settings);
    }
    let file =
        SettingsFile { format: EXPORT_FORMAT, exported_at: Some(Timestamp::to_string(&state.clock.now())), settings };
    let disposition = HeaderValue::from_static("attachment; filename=\"agentd-settings.json\"");
    Ok(([(CONTENT_DISPOSITION, disposition)], Json(file)).into_response())
}

/// Takes over an export
///
/// All of it or none. If it has the categories `security` or `sandbox`, a page session needs a recently entered password.
/// Categories and fields that the file leaves out stay as they are, and so do secrets, but for those
/// that would be sent elsewhere now: they are dropped, and named in `dropped_secrets`. Custom tools and tool servers are
/// told by their names; those that the file does not name stay.
#[utoipa::path(
    post, path = "/api/settings/import", tag = "settings", request_body = SettingsFile,
    params(IdempotencyKey),
    responses(
        (status = 200, body = ImportedView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`, `reauthentication_required`"),
    ),
)]
async fn import_settings(
    State(state): State<SettingsRoutes>,
    caller: Caller,
    once: IdempotencyKey,
    Json(file): Json<SettingsFile>,
) -> Answer<ImportedView> {
    if SAFETY_CATEGORIES.iter().any(|category| file.settings.contains_key(*category)) {
        caller.require_recent_password()?;
    }
    if file.format > EXPORT_FORMAT {
        let message = format!("the file is from a newer version; this one reads format {EXPORT_FORMAT}");
        return Err(SettingsError::field("format", message).into());
    }
    let recorder =
        record_once(&once, StatusCode::OK, |imported: &ImportedSettings| ImportedView::from(imported.clone()));
    Ok(Json(state.settings.import(file.settings, recorder).await?.into()))
}
