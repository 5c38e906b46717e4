//! Handlers for saved login states, in the format of Playwright's storage states.

use agentd_base::Timestamp;
use agentd_browser::{Cookie, Database, OriginStorage, SkippedDatabase, StorageState, StoredItem};
use agentd_web::{Answer, ApiError, ErrorBody, Json, Path};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cookies::CookieView;
use crate::browser::model::AuthState;
use crate::browser::service::Browser;

/// Saved login state without its contents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserAuthState)]
pub(super) struct AuthStateView {
    /// Unique name: 1 to 63 of `a-z`, `0-9`, `_` and `-`, beginning with a letter or a digit.
    name: String,
    /// Number of cookies.
    cookies: u64,
    /// Number of origins with stored data.
    origins: u64,
    /// Time at which a state with this name was first saved (RFC 3339, UTC).
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time at which the state was last saved (RFC 3339, UTC).
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<AuthState> for AuthStateView {
    fn from(state: AuthState) -> Self {
        let AuthState { name, cookies, origins, created_at, updated_at } = state;
        Self { name, cookies, origins, created_at, updated_at }
    }
}

/// IndexedDB database of an origin.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDatabaseName)]
struct DatabaseView {
    /// Origin that the database belongs to.
    #[schema(example = "https://example.com")]
    origin: String,
    /// Name of the database within its origin.
    database: String,
}

impl From<SkippedDatabase> for DatabaseView {
    fn from(SkippedDatabase { origin, database }: SkippedDatabase) -> Self {
        Self { origin, database }
    }
}

/// Login state that was just saved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SavedBrowserAuthState)]
pub(super) struct SavedStateView {
    #[serde(flatten)]
    state: AuthStateView,
    /// Databases that were omitted because they are too large or contain values without a JSON form, such as files or
    /// keys; at most 100.
    left_out: Vec<DatabaseView>,
}

/// Saved login states, sorted by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserAuthStateList)]
pub(super) struct AuthStateList {
    /// All saved states; at most 100.
    auth_states: Vec<AuthStateView>,
    /// Number of saved states.
    total: usize,
}

/// Entry of the local storage.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserStoredItem)]
struct ItemView {
    /// Key of the entry.
    name: String,
    /// Value of the entry.
    value: String,
}

/// Storage of an origin.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BrowserOriginStorage)]
struct OriginView {
    /// Scheme, host and port of the site, without a path.
    #[schema(example = "https://example.com")]
    origin: String,
    /// Entries of the local storage; default: none.
    #[serde(default)]
    #[schema(required = false)]
    local_storage: Vec<ItemView>,
    /// IndexedDB databases with their object stores and records, at most 1,000; default: none.
    #[serde(default, rename = "indexedDB", skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<Object>, max_items = 1_000)]
    indexed_db: Vec<Database>,
}

/// Storage state as written and read by Playwright's `storageState`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserStorageState)]
pub(super) struct StateView {
    /// Cookies of all sites, at most 5,000; default: none.
    #[serde(default)]
    #[schema(required = false, max_items = 5_000)]
    cookies: Vec<CookieView>,
    /// Storage of each origin, at most 300; default: none.
    #[serde(default)]
    #[schema(required = false, max_items = 300)]
    origins: Vec<OriginView>,
}

impl From<StateView> for StorageState {
    fn from(state: StateView) -> Self {
        let item = |item: ItemView| StoredItem { name: item.name, value: item.value };
        let origin = |origin: OriginView| OriginStorage {
            origin: origin.origin,
            local_storage: origin.local_storage.into_iter().map(item).collect(),
            indexed_db: origin.indexed_db,
        };
        Self {
            cookies: state.cookies.into_iter().map(Cookie::from).collect(),
            origins: state.origins.into_iter().map(origin).collect(),
        }
    }
}

impl From<StorageState> for StateView {
    fn from(state: StorageState) -> Self {
        let item = |item: StoredItem| ItemView { name: item.name, value: item.value };
        let origin = |origin: OriginStorage| OriginView {
            origin: origin.origin,
            local_storage: origin.local_storage.into_iter().map(item).collect(),
            indexed_db: origin.indexed_db,
        };
        Self {
            cookies: state.cookies.into_iter().map(CookieView::from).collect(),
            origins: state.origins.into_iter().map(origin).collect(),
        }
    }
}

/// Login state to save.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBrowserAuthState)]
pub(super) struct NewAuthState {
    /// Name of the state: 1 to 63 of `a-z`, `0-9`, `_` and `-`, beginning with a letter or a digit. A state with this
    /// name is replaced.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9][a-z0-9_-]{0,62}$", example = "shop")]
    name: String,
    /// State from another source, such as a Playwright file, at most 8 MiB; default: the state of the session.
    #[serde(default)]
    state: Option<StateView>,
}

/// Result of deleting a login state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserAuthStateDeleted)]
pub(super) struct AuthStateDeleted {
    /// Always true.
    deleted: bool,
}

/// List login states
///
/// Requires a key with scope `full`.
#[utoipa::path(get, path = "/api/browser/auth-states", tag = "browser",
    responses(
        (status = 200, body = AuthStateList),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the key is read-only"),
    ))]
pub(super) async fn list_browser_auth_states(State(browser): State<Browser>) -> Answer<AuthStateList> {
    let states: Vec<AuthStateView> = browser.auth_states().await?.into_iter().map(AuthStateView::from).collect();
    Ok(Json(AuthStateList { total: states.len(), auth_states: states }))
}

/// Save a login state
///
/// Saves cookies, local storage and databases of all sites of the session, or the given state, encrypted. A state with
/// the same name is replaced. Up to 100 states of 8 MiB each are stored; databases that do not fit are omitted and
/// listed.
#[utoipa::path(post, path = "/api/browser/auth-states", tag = "browser", request_body = NewAuthState,
    responses(
        (status = 201, body = SavedStateView),
        (status = 409, body = ErrorBody,
            description = "`browser_not_running`: no session; `limit_exceeded`, `too_many_auth_states`; `timeout`"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn save_browser_auth_state(
    State(browser): State<Browser>,
    Json(new): Json<NewAuthState>,
) -> Result<(StatusCode, Json<SavedStateView>), ApiError> {
    let (state, left_out) = browser.save_auth_state(new.name, new.state.map(StorageState::from)).await?;
    let left_out = left_out.into_iter().map(DatabaseView::from).collect();
    Ok((StatusCode::CREATED, Json(SavedStateView { state: state.into(), left_out })))
}

/// Get a login state
///
/// Returns its contents. Requires a key with scope `full`.
#[utoipa::path(get, path = "/api/browser/auth-states/{name}", tag = "browser",
    params(("name" = String, Path, description = "Name of the login state")),
    responses(
        (status = 200, body = StateView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the key is read-only"),
        (status = 404, body = ErrorBody, description = "`auth_state_not_found`"),
        (status = 409, body = ErrorBody, description = "`auth_state_lost`: a restored backup did not contain it"),
    ))]
pub(super) async fn get_browser_auth_state(
    State(browser): State<Browser>,
    Path(name): Path<String>,
) -> Answer<StateView> {
    Ok(Json(browser.auth_state(&name).await?.1.into()))
}

/// Restore a login state
///
/// Replaces all cookies and storage of the session. Open pages see it after a reload. Starts the browser if necessary.
#[utoipa::path(post, path = "/api/browser/auth-states/{name}/restore", tag = "browser",
    params(("name" = String, Path, description = "Name of the login state")),
    responses(
        (status = 200, body = AuthStateView),
        (status = 404, body = ErrorBody, description = "`auth_state_not_found`"),
        (status = 409, body = ErrorBody, description = "`auth_state_lost`: a restored backup did not contain it; \
            `timeout`, `too_many_tabs`"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found"),
    ))]
pub(super) async fn restore_browser_auth_state(
    State(browser): State<Browser>,
    Path(name): Path<String>,
) -> Answer<AuthStateView> {
    Ok(Json(browser.restore_auth_state(&name).await?.into()))
}

/// Delete a login state
#[utoipa::path(delete, path = "/api/browser/auth-states/{name}", tag = "browser",
    params(("name" = String, Path, description = "Name of the login state")),
    responses(
        (status = 200, body = AuthStateDeleted),
        (status = 404, body = ErrorBody, description = "`auth_state_not_found`"),
    ))]
pub(super) async fn delete_browser_auth_state(
    State(browser): State<Browser>,
    Path(name): Path<String>,
) -> Answer<AuthStateDeleted> {
    browser.delete_auth_state(&name).await?;
    Ok(Json(AuthStateDeleted { deleted: true }))
}
