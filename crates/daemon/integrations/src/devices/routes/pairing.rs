//! Routes of pairing codes and pairing.

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

/// Pairing code, returned only once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairingCode {
    /// Six digits, valid for one device.
    #[schema(example = "042137")]
    code: String,
    /// Time at which the code expires.
    expires_at: Timestamp,
    /// Lifetime in seconds: 300.
    #[schema(example = 300)]
    expires_in: u64,
}

/// Create a pairing code
///
/// The code is valid for five minutes and can be used once. Enter it on the device, for example with `agentd device
/// join`. Creating a sixth open code voids the oldest one, and ten wrong attempts void all open codes.
#[utoipa::path(
    post,
    path = "/api/auth/device/code",
    operation_id = "create_device_code",
    tag = "devices",
    params(IdempotencyKey),
    responses((status = 201, description = "The code, shown only once", body = PairingCode)),
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

/// Device to pair.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PairDevice {
    /// Pairing code from `POST /api/auth/device/code`: six digits.
    #[schema(value_type = String, min_length = 1, max_length = 64, write_only, example = "042137")]
    code: Secret,
    /// Display name, 1 to 64 characters without control characters; part of the names of its tools.
    #[schema(min_length = 1, max_length = 64, example = "laptop")]
    name: String,
    /// Operating system or type of the device, for display; 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64, example = "linux")]
    platform: String,
    /// Further information about the device, at most 4,096 bytes of JSON; default: an empty object.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Option<Map<String, Value>>,
}

/// Paired device with its token, which is returned only once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairedDevice {
    /// Id of the device.
    device_id: DeviceId,
    /// Token beginning with `dev_`; accepted only by `GET /api/devices/ws?token=…`.
    device_token: String,
    /// Display name of the device, without surrounding spaces.
    name: String,
}

/// Pair a device with a code
///
/// Requires no other credential than the code. After five wrong codes within a minute from one address, the response is
/// 429 with `Retry-After`. Repeating a request with the same `Idempotency-Key` returns 409 `already_done` with the ID
/// of the device.
#[utoipa::path(
    post,
    path = "/api/auth/device/pair",
    operation_id = "pair_device",
    tag = "devices",
    request_body = PairDevice,
    params(IdempotencyKey),
    responses(
        (status = 201, description = "The device and its token", body = PairedDevice),
        (status = 401, description = "Wrong, used or expired code", body = ErrorBody),
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
