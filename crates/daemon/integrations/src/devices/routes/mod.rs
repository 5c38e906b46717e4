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

/// Tool that a connected device provides.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceToolView {
    /// Name under which agents call the tool: `device_<name>_<tool>`, at most 64 characters.
    #[schema(example = "device_laptop_shell")]
    name: String,
    /// Description given by the device, at most 2,000 characters; may be empty.
    description: String,
}

/// Paired device.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceView {
    /// Id of the device.
    id: DeviceId,
    /// Display name that the device reported when it was paired; not necessarily unique.
    name: String,
    /// Operating system or type of the device, for display.
    platform: String,
    /// Metadata that the device reported when it was paired, at most 4,096 bytes; may be empty.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Prefix of the names of its tools, unique among devices.
    #[schema(example = "device_laptop_")]
    tool_prefix: String,
    /// Whether the device is connected to this daemon or to another daemon that uses the same database.
    connected: bool,
    /// Time of the last contact, accurate to one minute while the device is connected; null before the first
    /// connection.
    last_seen: Option<Timestamp>,
    /// Tools of the device that this daemon offers to agents, at most 64; empty if the device is not connected to this
    /// daemon.
    tools: Vec<DeviceToolView>,
    /// Time at which the device was paired.
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

/// Paired devices.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeviceList {
    /// Paired devices, oldest first; at most 100.
    devices: Vec<DeviceView>,
    /// Number of paired devices.
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

/// Result of deleting a device.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedDevice {
    /// Always true.
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
    params(("id" = String, Path, description = "Id of the device")),
    responses((status = 200, description = "Device removed", body = RevokedDevice)),
)]
pub(super) async fn delete_device(
    State(devices): State<Devices>,
    Path(id): Path<String>,
) -> ApiResult<Json<RevokedDevice>> {
    devices.revoke(&id.into()).await?;
    Ok(Json(RevokedDevice { revoked: true }))
}
