//! Routes of the catalog of known tool servers.

use agentd_core::runtime::record_once;
use agentd_mcp::catalog::{CatalogEntry, EntryTransport, Runner, ValueKind, ValueSpec, catalog};
use agentd_web::{ApiResult, ErrorBody, IdempotencyKey, Json, Path};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::state::ToolServerRoutes;
use super::views::{ToolServerView, created};
use crate::tool_servers::{Installation, TransportKind};

/// Type of a value.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CatalogValueKind {
    /// An absolute path.
    Path,
    /// One or several absolute paths.
    Paths,
    /// An IANA time zone name.
    TimeZone,
    /// A credential; stored encrypted and never returned.
    Secret,
    /// `true` or `false`.
    Flag,
}

/// Value that the owner enters to install a catalog entry.
#[derive(Debug, Serialize, ToSchema)]
struct CatalogValue {
    /// Name of the value in the installation request.
    name: &'static str,
    /// Label of the value for users.
    description: &'static str,
    /// Type of the value.
    kind: CatalogValueKind,
    /// Whether the value is required.
    required: bool,
}

impl From<&ValueSpec> for CatalogValue {
    fn from(spec: &ValueSpec) -> Self {
        let kind = match spec.kind {
            ValueKind::Path => CatalogValueKind::Path,
            ValueKind::Paths => CatalogValueKind::Paths,
            ValueKind::TimeZone => CatalogValueKind::TimeZone,
            ValueKind::Secret => CatalogValueKind::Secret,
            ValueKind::Flag => CatalogValueKind::Flag,
        };
        Self { name: spec.name, description: spec.description, kind, required: spec.required }
    }
}

/// Entry of the tool server catalog. Fields of the other transport are null.
#[derive(Debug, Serialize, ToSchema)]
struct CatalogEntryView {
    /// Id of the entry, used to install it.
    id: &'static str,
    /// Display name; also the default name of the installed server.
    name: &'static str,
    /// One-sentence summary of the server.
    description: &'static str,
    /// URL of the server's project.
    homepage: &'static str,
    transport: TransportKind,
    /// stdio: package runner, `npx` (requires Node.js) or `uvx` (requires uv).
    #[schema(required, value_type = Option<String>)]
    runner: Option<&'static str>,
    /// stdio: package in the registry of the runner.
    #[schema(required, value_type = Option<String>)]
    package: Option<&'static str>,
    /// stdio: version of the package that is installed.
    #[schema(required, value_type = Option<String>)]
    version: Option<&'static str>,
    /// stdio: name of the program after installation.
    #[schema(required, value_type = Option<String>)]
    executable: Option<&'static str>,
    /// http: URL of the endpoint.
    #[schema(required, value_type = Option<String>)]
    url: Option<&'static str>,
    /// Values that the owner enters.
    values: Vec<CatalogValue>,
    /// Whether the server itself needs network access, apart from its download.
    needs_network: bool,
}

impl From<&CatalogEntry> for CatalogEntryView {
    fn from(entry: &CatalogEntry) -> Self {
        let mut view = Self {
            id: entry.id,
            name: entry.name,
            description: entry.description,
            homepage: entry.homepage,
            transport: TransportKind::Http,
            runner: None,
            package: None,
            version: None,
            executable: None,
            url: None,
            values: entry.values.iter().map(CatalogValue::from).collect(),
            needs_network: entry.needs_network,
        };
        match entry.transport {
            EntryTransport::Http { url } => view.url = Some(url),
            EntryTransport::Stdio { runner, package, version, executable } => {
                view.transport = TransportKind::Stdio;
                view.runner = Some(Runner::command(runner));
                (view.package, view.version, view.executable) = (Some(package), Some(version), Some(executable));
            }
        }
        view
    }
}

/// Catalog of known tool servers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Catalog {
    /// Entries in display order.
    entries: Vec<CatalogEntryView>,
    /// Number of entries.
    total: usize,
}

/// Options for the installation of an entry.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct InstallCatalogEntry {
    /// Values by their names in the entry's `values`: a string, a list of strings, or a boolean. The server receives
    /// access to the folders among them. Default: none.
    #[schema(value_type = Object, required = false)]
    values: Map<String, Value>,
    /// Name of the server, 1 to 100 characters. Default: the entry's name.
    #[schema(min_length = 1, max_length = 100)]
    name: Option<String>,
    /// Absolute path of the installed program, up to 4,096 characters. Default: the package is downloaded.
    #[schema(max_length = 4096)]
    program: Option<String>,
    /// Whether the program may access the network. Default: true if the server needs it or its package must be
    /// downloaded.
    network: Option<bool>,
    /// Absolute paths that the program may read, up to 32. Default: none.
    #[schema(max_items = 32)]
    readable_paths: Option<Vec<String>>,
    /// Absolute paths of folders that the program may modify, up to 32, in addition to the folders among the values.
    /// Default: none.
    #[schema(max_items = 32)]
    writable_paths: Option<Vec<String>>,
    /// Whether the server is enabled. Default: true.
    enabled: Option<bool>,
    /// Whether the server's read-only hints are trusted. Default: false.
    trusted: Option<bool>,
}

impl From<InstallCatalogEntry> for Installation {
    fn from(fields: InstallCatalogEntry) -> Self {
        Self {
            values: fields.values,
            name: fields.name,
            program: fields.program,
            network: fields.network,
            readable_paths: fields.readable_paths,
            writable_paths: fields.writable_paths,
            enabled: fields.enabled,
            trusted: fields.trusted,
        }
    }
}

/// List the tool server catalog
#[utoipa::path(get, path = "/api/settings/skills/mcp/catalog", operation_id = "list_catalog", tag = "skills",
    responses((status = 200, body = Catalog)))]
pub(super) async fn list_catalog() -> Json<Catalog> {
    let entries: Vec<CatalogEntryView> = catalog().iter().map(CatalogEntryView::from).collect();
    Json(Catalog { total: entries.len(), entries })
}

/// Install a catalog entry
///
/// Registers the server. The package is downloaded when the server is first started.
#[utoipa::path(post, path = "/api/settings/skills/mcp/catalog/{entry_id}/install",
    operation_id = "install_catalog_entry", tag = "skills", request_body = InstallCatalogEntry,
    params(("entry_id" = String, Path, description = "Id of the catalog entry"), IdempotencyKey),
    responses((status = 201, body = ToolServerView), (status = 409, body = ErrorBody, description = "The name is taken")))]
pub(super) async fn install_catalog_entry(
    State(state): State<ToolServerRoutes>,
    Path(entry): Path<String>,
    once: IdempotencyKey,
    Json(fields): Json<InstallCatalogEntry>,
) -> ApiResult<(StatusCode, Json<ToolServerView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, created);
    let server = state.servers.install(&entry, fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(server.into())))
}
