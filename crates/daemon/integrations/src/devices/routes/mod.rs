//! `/api/auth/device/*` and `/api/devices*`.

mod pairing;
mod socket;

use agentd_base::Timestamp;
use agentd_web::{ApiResult, ApiRouter, Json, Path, Routes, routes};
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::model::DeviceId;
use super::service::{Devices, ListedDevice};

/// Every route of the domain, with its access rule.
#[must_use]
pub(super) fn routes() -> Routes<Devices> {
    Routes::new()
        .public(ApiRouter::new().routes(routes!(pairing::pair_device)))
        .own_credential("device_token", ApiRouter::new().routes(routes!(socket::connect_device)))
        .protected(
            ApiRouter::new()
                .routes(routes!(pairing::create_device_code))
                .routes(routes!(list_devices))
                .routes(routes!(delete_device)),
        )
}

/// A tool that a connected device lends.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceToolView {
    /// As agents call it: `device_<name>_<tool>`.
    #[schema(example = "device_laptop_shell")]
    name: String,
    description: String,
}

/// A paired device.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceView {
    id: DeviceId,
    name: String,
    platform: String,
    /// What it said of itself when it was paired.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// What the names of its tools begin with.
    #[schema(example = "device_laptop_")]
    tool_prefix: String,
    /// Whether its socket is open, at this daemon or at another one over the same database.
    connected: bool,
    /// At most a minute old while it is connected; null before its first connection.
    last_seen: Option<Timestamp>,
    /// What agents are offered of it by the daemon that answers.
    tools: Vec<DeviceToolView>,
    created_at: Timestamp,
}

impl From<ListedDevice> for DeviceView {
    fn from(listed: ListedDevice) -> Self {
        let ListedDevice { device, is_connected, tools } = listed;
        Self {
            tool_prefix: device.tool_prefix(),
            id: device.id,
            name: device.name,
            platform: device.platform,
            metadata: device.metadata,
            connected: is_connected,
            last_seen: device.last_seen_at,
            tools: tools.into_iter().map(|(name, description)| DeviceToolView { name, description }).collect(),
            created_at: device.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceList {
    devices: Vec<DeviceView>,
    total: usize,
}

/// Every paired device, the oldest first
#[utoipa::path(
    get,
    path = "/api/devices",
    operation_id = "list_devices",
    tag = "devices",
    responses((status = 200, description = "The devices, without their tokens", body = DeviceList)),
)]
pub(super) async fn list_devices(State(devices): State<Devices>) -> ApiResult<Json<DeviceList>> {
    let devices: Vec<DeviceView> = devices.list().await?.into_iter().map(DeviceView::from).collect();
    Ok(Json(DeviceList { total: devices.len(), devices }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedDevice {
    revoked: bool,
}

/// Remove a device for good
///
/// Its token is worth nothing from now on, and its socket is closed at once.
#[utoipa::path(
    delete,
    path = "/api/devices/{id}",
    operation_id = "delete_device",
    tag = "devices",
    params(("id" = String, Path, description = "Id of the device")),
    responses((status = 200, description = "It is removed", body = RevokedDevice)),
)]
pub(super) async fn delete_device(
    State(devices): State<Devices>,
    Path(id): Path<String>,
) -> ApiResult<Json<RevokedDevice>> {
    devices.revoke(&id.into()).await?;
    Ok(Json(RevokedDevice { revoked: true }))
}
