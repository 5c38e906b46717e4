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

/// A tool that a connected device provides.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceToolView {
    /// The name under which agents call it: `device_<name>_<tool>`.
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
    /// Metadata that the device reported when it was paired.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The prefix of the names of its tools.
    #[schema(example = "device_laptop_")]
    tool_prefix: String,
    /// Whether the device is connected to this daemon or to another daemon that uses the same database.
    connected: bool,
    /// Accurate to one minute while the device is connected; null before the first connection.
    last_seen: Option<Timestamp>,
    /// The tools of the device that this daemon offers to agents.
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

/// List paired devices, oldest first
#[utoipa::path(
    get,
    path = "/api/devices",
    operation_id = "list_devices",
    tag = "devices",
    responses((status = 200, description = "The devices, without tokens", body = DeviceList)),
)]
pub(super) async fn list_devices(State(devices): State<Devices>) -> ApiResult<Json<DeviceList>> {
    let devices: Vec<DeviceView> = devices.list().await?.into_iter().map(DeviceView::from).collect();
    Ok(Json(DeviceList { total: devices.len(), devices }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedDevice {
    revoked: bool,
}

/// Delete a device
///
/// Revokes its token and closes its connection immediately.
#[utoipa::path(
    delete,
    path = "/api/devices/{id}",
    operation_id = "delete_device",
    tag = "devices",
    params(("id" = String, Path, description = "The device ID")),
    responses((status = 200, description = "Device removed", body = RevokedDevice)),
)]
pub(super) async fn delete_device(
    State(devices): State<Devices>,
    Path(id): Path<String>,
) -> ApiResult<Json<RevokedDevice>> {
    devices.revoke(&id.into()).await?;
    Ok(Json(RevokedDevice { revoked: true }))
}
