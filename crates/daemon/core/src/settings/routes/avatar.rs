//! Endpoints of the owner's avatar.

use agentd_web::{Answer, ApiError, IdempotencyKey, Json, Path, limits};
use axum::extract::multipart::MultipartRejection;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use serde::Serialize;
use utoipa::ToSchema;

use super::categories::SettingsRoutes;
use crate::runtime::record_once;
use crate::settings::error::SettingsError;

/// Maximum size of a multipart body in addition to the file, in bytes.
pub(super) const MULTIPART_OVERHEAD: usize = 64 * 1024;

/// Picture as `multipart/form-data`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct AvatarUpload {
    /// PNG, JPEG, GIF or WebP file, up to 10 MiB.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Stored avatar.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AvatarView {
    /// Path of the picture; requests to it require a credential.
    avatar_url: String,
}

/// Upload the avatar
///
/// Replaces the owner's avatar. The picture (the first frame of an animation) is decoded, and rejected if it is damaged
/// or has more than 25 million pixels.
#[utoipa::path(
    post, path = "/api/settings/avatar", tag = "settings",
    request_body(content = AvatarUpload, content_type = "multipart/form-data"),
    params(IdempotencyKey),
    responses((status = 200, body = AvatarView)),
)]
pub(super) async fn upload_avatar(
    State(state): State<SettingsRoutes>,
    once: IdempotencyKey,
    Picture(bytes): Picture,
) -> Answer<AvatarView> {
    let recorder = record_once(&once, StatusCode::OK, |url: &String| AvatarView { avatar_url: url.clone() });
    let avatar_url = state.settings.set_avatar(bytes.into(), recorder).await?;
    Ok(Json(AvatarView { avatar_url }))
}

/// Show the avatar
///
/// Returns the picture. A new picture has a new URL, so responses can be cached indefinitely.
#[utoipa::path(
    get, path = "/api/settings/avatar/{file}", tag = "settings",
    params(("file" = String, Path, description = "File name from `avatar_url`")),
    responses((status = 200, description = "Picture", content(
        (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"),
    ))),
)]
pub(super) async fn show_avatar(
    State(state): State<SettingsRoutes>,
    Path(file): Path<String>,
) -> Result<Response, ApiError> {
    let (bytes, media_type) = state.settings.read_avatar(&file).await?;
    let headers = [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "private, max-age=31536000, immutable"),
        (CONTENT_DISPOSITION, "inline"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    Ok((headers, bytes).into_response())
}

/// Bytes of the form field `file`.
pub(super) struct Picture(Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Picture {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let multipart = Multipart::from_request(request, state).await;
        let mut multipart = multipart.map_err(|_: MultipartRejection| SettingsError::AvatarNotMultipart)?;
        let mut picture = None;
        while let Some(mut field) = multipart.next_field().await.map_err(|error| multipart_error(&error))? {
            if field.name() != Some("file") {
                continue;
            }
            if picture.is_some() {
                return Err(SettingsError::field("file", "must occur only once").into());
            }
            let mut bytes = Vec::new();
            while let Some(chunk) = field.chunk().await.map_err(|error| multipart_error(&error))? {
                if bytes.len() + chunk.len() > limits::UPLOAD {
                    return Err(SettingsError::AvatarTooLarge { limit: limits::UPLOAD }.into());
                }
                bytes.extend_from_slice(&chunk);
            }
            picture = Some(bytes);
        }
        picture.map(Self).ok_or_else(|| SettingsError::field("file", "is required").into())
    }
}

pub(super) fn multipart_error(error: &axum::extract::multipart::MultipartError) -> ApiError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return SettingsError::AvatarTooLarge { limit: limits::UPLOAD }.into();
    }
    ApiError::new(StatusCode::BAD_REQUEST, "malformed_multipart", "The multipart body is incomplete or malformed")
}
