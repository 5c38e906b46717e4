//! Reading and writing of file contents.

use agentd_web::{ApiResult, ErrorBody, Json, Path, Query};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::entry::{AgentFile, PathQuery, quoted};
use crate::files::model::disposition;
use crate::files::service::{Files, OpenPart};
use crate::workspaces::{Expected, Version};

const CHUNK_BYTES: usize = 64 << 10;

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok())
}

/// Returns the versions in a header, without quotes.
fn versions(listed: &str) -> Vec<String> {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    listed.split(',').map(plain).collect()
}

/// Joins all lines of a header. Invalid text matches no version, but the condition must not be dropped.
fn condition(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
    lines.reduce(|all, line| format!("{all},{line}").into()).map(|all| all.trim().to_owned())
}

fn expected(headers: &HeaderMap) -> Expected {
    match (condition(headers, &IF_MATCH), condition(headers, &IF_NONE_MATCH)) {
        (Some(listed), _) if listed == "*" => Expected::Something,
        (Some(listed), _) => Expected::OneOf(versions(&listed)),
        (None, Some(listed)) if listed == "*" => Expected::Nothing,
        (None, _) => Expected::Anything,
    }
}

/// Read a file
///
/// Returns the bytes as an attachment: only PNG, JPEG, GIF and WebP have an image type, everything else is
/// `application/octet-stream`. `Range` returns a part; several ranges return the whole file. `If-Range` and
/// `If-None-Match` accept the `ETag`.
#[utoipa::path(get, path = "/api/agents/{name}/files/content", operation_id = "read_agent_file", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), PathQuery),
    responses(
        (status = 200, description = "The file", content((Vec<u8> = "application/octet-stream"),
            (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"))),
        (status = 206, description = "The part requested by `Range`", content((Vec<u8> = "application/octet-stream"),
            (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"))),
        (status = 304, description = "The file has the version of `If-None-Match`"),
        (status = 404, body = ErrorBody, description = "`agent_not_found`; `file_not_found`"),
        (status = 409, body = ErrorBody, description = "`is_directory`; `not_a_directory`; `is_link`: links are not \
            followed; `not_a_file`: a device, a pipe, or a file with several hard links"),
        (status = 416, body = ErrorBody, description = "`range_not_satisfiable`: the range starts after the end")))]
pub(super) async fn read_agent_file(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let request_headers = headers.clone();
    let range = move |version: &Version| {
        let is_for = text(&request_headers, &IF_RANGE).is_none_or(|known| known.trim() == quoted(version));
        text(&request_headers, &RANGE).filter(|_| is_for).map(str::to_owned)
    };
    let opened = files.open(&name, &query.path, range).await?;
    let known = text(&headers, &IF_NONE_MATCH).map(versions).unwrap_or_default();
    let is_known = known.iter().any(|known| known == "*" || *known == opened.version.to_string());
    Ok(if is_known { unchanged(&opened) } else { to_response(opened) })
}

fn unchanged(opened: &OpenPart) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, quoted(&opened.version)), (CACHE_CONTROL, PRIVATE.to_owned())]).into_response()
}

const PRIVATE: &str = "private, no-cache";

/// The headers prevent any content from running or rendering in the daemon's origin.
fn to_response(opened: OpenPart) -> Response {
    let length = opened.part.map_or(opened.bytes, |part| part.length);
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    set(CONTENT_TYPE, opened.media_type.to_owned());
    set(CONTENT_LENGTH, length.to_string());
    set(CONTENT_DISPOSITION, disposition(&opened.name));
    set(CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned());
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin".to_owned());
    set(CACHE_CONTROL, PRIVATE.to_owned());
    set(ACCEPT_RANGES, "bytes".to_owned());
    set(ETAG, quoted(&opened.version));
    let status = match opened.part {
        None => StatusCode::OK,
        Some(part) => {
            set(CONTENT_RANGE, format!("bytes {}-{}/{}", part.start, part.start + part.length - 1, opened.bytes));
            StatusCode::PARTIAL_CONTENT
        }
    };
    let file = tokio::fs::File::from_std(opened.file).take(length);
    (status, headers, Body::from_stream(ReaderStream::with_capacity(file, CHUNK_BYTES))).into_response()
}

/// Write a file
///
/// The body is the file, up to 1 GiB. Missing directories are created; the write is atomic. `If-Match` with a known
/// `ETag` prevents overwriting concurrent changes; `If-None-Match: *` prevents overwriting any file.
#[utoipa::path(put, path = "/api/agents/{name}/files/content", operation_id = "write_agent_file", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), PathQuery,
        ("If-Match" = Option<String>, Header, description = "`ETag` of the file to replace"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if the file does not exist")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = AgentFile),
        (status = 404, body = ErrorBody, description = "`agent_not_found`"),
        (status = 409, body = ErrorBody, description = "`workspace_full`; `is_directory`; `not_a_directory`; \
            `is_link`; `not_a_file`; `file_being_written`: another upload of the same file is in progress"),
        (status = 412, body = ErrorBody, description = "`file_changed`: the version differs from `If-Match`; \
            `file_exists`: `If-None-Match` is `*`"),
        (status = 413, body = ErrorBody, description = "`body_too_large`; `file_too_large`"),
        (status = 503, body = ErrorBody, description = "`disk_full`: the reserve of the disk is reached")))]
pub(super) async fn write_agent_file(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
    request: Request,
) -> ApiResult<Json<AgentFile>> {
    let expected = expected(request.headers());
    let body = request.into_body().into_data_stream();
    Ok(Json(files.write(&name, &query.path, expected, body).await?.into()))
}
