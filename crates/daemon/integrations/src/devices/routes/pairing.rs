//! Codes, and tokens for them.

use agentd_base::{Secret, Timestamp};
use agentd_core::runtime::record_secret_once;
use agentd_web::{ApiResult, ClientAddress, ErrorBody, IdempotencyKey, Json};
use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::devices::model::{DeviceId, NewDevice};
use crate::devices::service::{Devices, IssuedCode, Paired};

/// A pairing code, the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairingCode {
    /// Six digits, good for one device.
    #[schema(example = "042137")]
    code: String,
    expires_at: Timestamp,
    /// Seconds.
    #[schema(example = 300)]
    expires_in: u64,
}

/// Make a code that pairs one device
///
/// Good for five minutes and one use. Enter it on the device, for instance with `agentd device join`. A sixth open code
/// voids the oldest, and ten wrong tries void them all.
#[utoipa::path(
    post,
    path = "/api/auth/device/code",
    operation_id = "create_device_code",
    tag = "devices",
    params(IdempotencyKey),
    responses((status = 201, description = "The code, shown once", body = PairingCode)),
)]
pub(super) async fn create_device_code(
    State(devices): State<Devices>,
    once: IdempotencyKey,
) -> ApiResult<(StatusCode, Json<PairingCode>)> {
    let recorder = record_secret_once(&once, |issued: &IssuedCode| issued.id.to_string());
    let issued = devices.create_code(recorder).await?;
    let view = PairingCode {
        code: issued.code.expose().to_owned(),
        expires_at: issued.expires_at,
        expires_in: issued.expires_in.as_secs(),
    };
    Ok((StatusCode::CREATED, Json(view)))
}

/// What a device says of itself.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PairDevice {
    #[schema(value_type = String, min_length = 1, max_length = 64, write_only, example = "042137")]
    code: Secret,
    /// As its owner calls it; part of the names of its tools.
    #[schema(min_length = 1, max_length = 64, example = "laptop")]
    name: String,
    /// What it runs on, for people.
    #[schema(min_length = 1, max_length = 64, example = "linux")]
    platform: String,
    /// Anything else, up to 4 KiB.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Option<Map<String, Value>>,
}

/// A device with its token, the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairedDevice {
    device_id: DeviceId,
    /// `dev_…`; opens `GET /api/devices/ws?token=…` and nothing else.
    device_token: String,
    name: String,
}

/// Pair a device with a code
///
/// Needs no credential: the code is one. Five wrong codes within a minute from one address: 429 with `Retry-After`.
/// With an `Idempotency-Key`, a repeat answers 409 `already_done` with the device's id.
#[utoipa::path(
    post,
    path = "/api/auth/device/pair",
    operation_id = "pair_device",
    tag = "devices",
    request_body = PairDevice,
    params(IdempotencyKey),
    responses(
        (status = 201, description = "The device and its token", body = PairedDevice),
        (status = 401, description = "The code is wrong, was used, or has expired", body = ErrorBody),
        (status = 429, description = "Too many wrong codes", body = ErrorBody),
    ),
)]
pub(super) async fn pair_device(
    State(devices): State<Devices>,
    address: Option<Extension<ClientAddress>>,
    once: IdempotencyKey,
    Json(request): Json<PairDevice>,
) -> ApiResult<(StatusCode, Json<PairedDevice>)> {
    let address = address.map(|Extension(ClientAddress(address))| address);
    let new = NewDevice::new(&request.name, &request.platform, request.metadata.unwrap_or_default());
    let recorder = record_secret_once(&once, |paired: &Paired| paired.device.id.to_string());
    let paired = devices.pair(address, request.code, new, recorder).await?;
    let view = PairedDevice {
        device_id: paired.device.id,
        device_token: paired.token.expose().to_owned(),
        name: paired.device.name,
    };
    Ok((StatusCode::CREATED, Json(view)))
}
