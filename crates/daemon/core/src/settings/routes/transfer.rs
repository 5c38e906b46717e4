//! Endpoints for the export and import of all settings.

use agentd_base::Timestamp;
use agentd_web::{Answer, ApiError, Caller, ErrorBody, IdempotencyKey, Json, Query, Scope};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::categories::{AllSettings, SettingsRoutes};
use crate::runtime::record_once;
use crate::settings::error::SettingsError;
use crate::settings::safety::{SafetyScope, UnchangedSetting, WeakenedSetting};
use crate::settings::service::ImportedSettings;

const EXPORT_FORMAT: u32 = 1;

/// Result of an import: all categories by name, dropped secrets, and affected safety settings.
#[derive(Debug, Serialize)]
pub(super) struct ImportedView {
    #[serde(flatten)]
    settings: AllSettings,
    dropped_secrets: Vec<String>,
    weakened: Vec<WeakenedSetting>,
    safety_unchanged: Vec<UnchangedSetting>,
}

impl From<ImportedSettings> for ImportedView {
    fn from(imported: ImportedSettings) -> Self {
        Self {
            settings: AllSettings(imported.sections),
            dropped_secrets: imported.dropped_secrets,
            weakened: imported.safety.weakened,
            safety_unchanged: imported.safety.unchanged,
        }
    }
}

impl PartialSchema for ImportedView {
    fn schema() -> RefOr<Schema> {
        let mut schema = AllSettings::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let name = ObjectBuilder::new().schema_type(utoipa::openapi::Type::String).build();
            let lists = [
                (
                    "dropped_secrets",
                    RefOr::T(Schema::Object(name)),
                    "Secrets that must be entered again because the import changed their destination, such as \
                     `email.password`.",
                ),
                (
                    "weakened",
                    RefOr::Ref(Ref::from_schema_name(WeakenedSetting::name())),
                    "Safety settings that became weaker.",
                ),
                (
                    "safety_unchanged",
                    RefOr::Ref(Ref::from_schema_name(UnchangedSetting::name())),
                    "Safety settings whose imported values were not applied; `include_safety=true` applies them.",
                ),
            ];
            for (field, items, description) in lists {
                let list = ArrayBuilder::new().items(items).description(Some(description)).build();
                object.properties.insert(field.to_owned(), RefOr::T(Schema::Array(list)));
                object.required.push(field.to_owned());
            }
        }
        schema
    }
}

impl ToSchema for ImportedView {
    fn name() -> std::borrow::Cow<'static, str> {
        "ImportedSettings".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((WeakenedSetting::name().into_owned(), WeakenedSetting::schema()));
        schemas.push((UnchangedSetting::name().into_owned(), UnchangedSetting::schema()));
    }
}

/// Content of an export and body of an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsFile {
    /// Version of this format: 1.
    #[serde(default = "export_format")]
    #[schema(minimum = 1, required = false)]
    format: u32,
    /// Time of the export; an import ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 64)]
    exported_at: Option<String>,
    /// All categories by name.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
}

fn export_format() -> u32 {
    EXPORT_FORMAT
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ImportQuery {
    /// Whether the safety settings in the file are applied. It is a query parameter, so that a file cannot request it.
    /// Default: false.
    #[param(default = false)]
    include_safety: Option<bool>,
}

impl ImportQuery {
    fn safety(&self) -> SafetyScope {
        if self.include_safety == Some(true) { SafetyScope::Included } else { SafetyScope::Excluded }
    }
}

/// Export all settings
///
/// The file contains no API keys, other secrets or avatar.
#[utoipa::path(
    get, path = "/api/settings/export", tag = "settings",
    responses((status = 200, body = SettingsFile, headers(
        ("Content-Disposition" = String, description = "File name `agentd-settings.json`"),
    ))),
)]
pub(super) async fn export_settings(State(state): State<SettingsRoutes>, caller: Caller) -> Result<Response, ApiError> {
    let mut settings = state.settings.export().await?;
    if caller.scope == Scope::Read {
        state.settings.redact_for_read_scope(&mut settings);
    }
    let file =
        SettingsFile { format: EXPORT_FORMAT, exported_at: Some(Timestamp::to_string(&state.clock.now())), settings };
    let disposition = HeaderValue::from_static("attachment; filename=\"agentd-settings.json\"");
    Ok(([(CONTENT_DISPOSITION, disposition)], Json(file)).into_response())
}

/// Import settings
///
/// Applies the whole file or nothing. Categories and fields that the file omits keep their values, and so do secrets,
/// except those whose destination changes: they are dropped and named in `dropped_secrets`. Custom tools and tool
/// servers are matched by name; those that are not in the file are unchanged.
///
/// Safety settings keep their values unless `include_safety` is true: everything in `security` and `sandbox`,
/// `browser.ssrf_allowlist` and `ssrf_blocklist`, `sender_policy`, `allowed_senders` and `tools` of every channel, and
/// `trusted`, `network`, `readable_paths` and `writable_paths` of tool servers. `safety_unchanged` lists those that
/// differ in the file; with `include_safety`, `weakened` lists those that became weaker, and a page session needs a
/// recently confirmed password.
#[utoipa::path(
    post, path = "/api/settings/import", tag = "settings", request_body = SettingsFile,
    params(ImportQuery, IdempotencyKey),
    responses(
        (status = 200, body = ImportedView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`, `reauthentication_required`"),
    ),
)]
pub(super) async fn import_settings(
    State(state): State<SettingsRoutes>,
    caller: Caller,
    Query(query): Query<ImportQuery>,
    once: IdempotencyKey,
    Json(file): Json<SettingsFile>,
) -> Answer<ImportedView> {
    if query.safety() == SafetyScope::Included {
        caller.require_recent_password()?;
    }
    if file.format > EXPORT_FORMAT {
        let message = format!("the file is from a newer version; this one reads format {EXPORT_FORMAT}");
        return Err(SettingsError::field("format", message).into());
    }
    let recorder =
        record_once(&once, StatusCode::OK, |imported: &ImportedSettings| ImportedView::from(imported.clone()));
    Ok(Json(state.settings.import(file.settings, query.safety(), recorder).await?.into()))
}
