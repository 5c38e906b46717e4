//! Profile pictures: accepted formats, access, and cleanup of rejected uploads.

use std::io::Cursor;
use std::time::Duration;

use image::ImageFormat;
use serde_json::json;

use super::{get, put, store_raw};
use crate::support::{TestApp, TestResponse};

/// A GIF of one pixel.
pub const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Returns a picture with this side length in which neighbouring pixels differ.
fn picture(format: ImageFormat, side: u32) -> Vec<u8> {
    let pixel = |x: u32, y: u32| image::Rgb([x.wrapping_mul(37), y.wrapping_mul(91), x ^ y].map(|part| part as u8));
    let mut bytes = Cursor::new(Vec::new());
    image::RgbImage::from_fn(side, side, pixel).write_to(&mut bytes, format).expect("encoded");
    bytes.into_inner()
}

pub fn multipart(field: &str, bytes: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--bound\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--bound\r\n\
         Content-Disposition: form-data; name=\"{field}\"; filename=\"x.exe\"\r\nContent-Type: text/html\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n--bound--\r\n");
    body
}

pub(super) async fn upload(app: &TestApp, field: &str, bytes: &[u8]) -> TestResponse {
    let request = app.post("/api/settings/avatar");
    request.body("multipart/form-data; boundary=bound", multipart(field, bytes)).send().await
}

fn avatar_files(app: &TestApp) -> usize {
    std::fs::read_dir(app.data_dir().join("avatars")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn avatar_requires_a_credential_and_is_replaced() {
    let app = TestApp::with_owner().await;
    let url = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].as_str().unwrap().to_owned();
    assert_eq!(get(&app, "profile").await["avatar_url"], url);
    assert!(url.starts_with("/api/settings/avatar/") && url.ends_with(".gif"), "{url}");
    app.get(&url).anonymous().send().await.expect_error(401, "missing_credential");
    let shown = app.get(&url).send().await.expect_status(200);
    assert_eq!(shown.body, GIF);
    assert_eq!(shown.header("content-type"), Some("image/gif"));
    assert!(shown.header("cache-control").unwrap().contains("immutable"));

    let second = upload(&app, "file", &picture(ImageFormat::Png, 8)).await.expect_status(200).json();
    let second = second["avatar_url"].as_str().unwrap().to_owned();
    app.get(&url).send().await.expect_error(404, "not_found");
    app.get(&second).send().await.expect_status(200);
    put(&app, "profile", json!({"avatar_url": url})).await.expect_error(400, "invalid_request");
    put(&app, "profile", json!({"avatar_url": second})).await.expect_status(200);
    put(&app, "profile", json!({"avatar_url": null})).await.expect_status(200);
    app.get(&second).send().await.expect_status(404);
    assert_eq!(std::fs::read_dir(app.data_dir().join("avatars")).unwrap().count(), 0);
    put(&app, "profile", json!({"avatar_url": "https://pictures.example/a.png"})).await.expect_status(200);
}

#[tokio::test]
async fn invalid_avatar_is_rejected_and_not_stored() {
    let app = TestApp::with_owner().await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let hollow = [&b"\xff\xd8\xff\xe0"[..], &[0; 200]].concat();
    for bytes in [b"".as_slice(), b"GIF", svg, b"<html></html>", &hollow] {
        assert_eq!(upload(&app, "file", bytes).await.expect_error(400, "invalid_request").bad_fields(), ["file"]);
    }
    assert_eq!(upload(&app, "picture", GIF).await.expect_status(400).bad_fields(), ["file"]);
    app.post("/api/settings/avatar").json(&json!({})).send().await.expect_error(415, "unsupported_media_type");
    let two = [multipart("file", GIF), multipart("file", GIF)].concat();
    let two = String::from_utf8_lossy(&two).replace("--bound--\r\n--bound", "--bound");
    let twice = app.post("/api/settings/avatar").body("multipart/form-data; boundary=bound", two).send().await;
    assert!(twice.expect_error(400, "invalid_request").text().contains("must occur only once"));
    let broken = app.post("/api/settings/avatar").body("multipart/form-data; boundary=bound", "--bound\r\nContent-");
    broken.send().await.expect_error(400, "malformed_multipart");
    let mut large = GIF.to_vec();
    large.resize(10 * 1024 * 1024 + 1, 0);
    upload(&app, "file", &large).await.expect_error(413, "body_too_large");
    large.truncate(10 * 1024 * 1024);
    upload(&app, "file", &large).await.expect_status(200);
    assert_eq!(std::fs::read_dir(app.data_dir().join("avatars")).unwrap().count(), 1);
    for name in ["x.gif", "..%2f..%2fsecret.key", "%00.gif", &format!("{}.gif", "0".repeat(64)), "secret.key"] {
        let answer = app.get(&format!("/api/settings/avatar/{name}")).send().await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{name}: {}", answer.status);
    }
}

#[tokio::test]
async fn truncated_avatar_is_rejected() {
    let app = TestApp::with_owner().await;
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let whole = picture(format, 40);
        for length in [20, whole.len() / 2, whole.len() * 9 / 10] {
            let refused = upload(&app, "file", &whole[..length]).await.expect_error(400, "invalid_request");
            assert_eq!(refused.bad_fields(), ["file"], "{format:?} cut after {length}");
        }
        upload(&app, "file", &whole).await.expect_status(200);
    }
    assert_eq!(avatar_files(&app), 1);
}

/// A few hundred bytes that declare 60,000 pixels in width and height.
#[tokio::test]
async fn avatar_that_exhausts_memory_is_rejected() {
    let app = TestApp::with_owner().await;
    let mut gif = picture(ImageFormat::Gif, 8);
    for side in [6, 8] {
        gif[side..side + 2].copy_from_slice(&60_000_u16.to_le_bytes());
    }
    let mut jpeg = picture(ImageFormat::Jpeg, 8);
    let frame = jpeg.windows(2).position(|two| two == [0xff, 0xc0]).expect("a frame");
    for side in [frame + 5, frame + 7] {
        jpeg[side..side + 2].copy_from_slice(&60_000_u16.to_be_bytes());
    }
    for bytes in [gif, jpeg] {
        let refused = upload(&app, "file", &bytes).await.expect_error(400, "invalid_request");
        assert!(refused.text().contains("60000 x 60000 pixels"), "{}", refused.text());
    }
}

#[tokio::test]
async fn repeated_upload_is_executed_once() {
    let app = TestApp::with_owner().await;
    let send = async || {
        let request = app.post("/api/settings/avatar").header("idempotency-key", "one");
        request.body("multipart/form-data; boundary=bound", multipart("file", GIF)).send().await.expect_status(200)
    };
    let first = send().await;
    let second = send().await;
    assert_eq!(first.json(), second.json());
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn rejected_avatar_leaves_no_file() {
    let app = TestApp::with_owner().await;
    store_raw(&app, "profile", r#"{"theme": 7}"#).await;
    upload(&app, "file", GIF).await.expect_status(500);
    assert_eq!(avatar_files(&app), 0);
}

/// A committed change is reported as done with its side effects, even if the settings as a whole cannot be read at
/// that
/// moment. It becomes active once they can be read.
#[tokio::test]
async fn committed_change_succeeds_even_if_settings_are_unreadable() {
    let app = TestApp::with_owner().await;
    let first = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].clone();
    store_raw(&app, "interface", r#"{"language": 7}"#).await;
    let second = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].clone();
    app.get(second.as_str().expect("a URL")).send().await.expect_status(200);
    app.get(first.as_str().expect("a URL")).send().await.expect_status(404);
    assert_eq!(avatar_files(&app), 1);
    let changed = put(&app, "profile", json!({"display_name": "Ada"})).await.expect_status(200).json();
    assert_eq!((&changed["display_name"], &changed["avatar_url"]), (&json!("Ada"), &second));
    let changed = put(&app, "security", json!({"session_ttl_seconds": 120})).await.expect_status(200).json();
    assert_eq!(changed["session_ttl_seconds"], 120);
    // Import returns every category, so it fails if one category cannot be read.
    let import = json!({"settings": {"profile": {"display_name": "Eve"}}});
    app.post("/api/settings/import").json(&import).send().await.expect_status(500);

    store_raw(&app, "interface", "{}").await;
    // Login does not reload the settings, so it shows the active ones.
    let account = json!({"username": "owner", "password": "correct horse"});
    let wait_until_active = async {
        loop {
            let session = app.post("/api/auth/login").json(&account).send().await.expect_status(200).json();
            if session["expires_in"] == 120 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait_until_active).await.expect("the change becomes active");
    assert_eq!(get(&app, "profile").await["display_name"], "Ada");
}
