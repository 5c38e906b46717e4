//! Uploads of archives from elsewhere.

use serde_json::json;

use super::*;
use crate::backup::refusing::repack;
use crate::support::TestApp;

async fn upload(app: &TestApp, archive: Vec<u8>) -> TestResponse {
    app.post("/api/backups/upload").body("application/octet-stream", archive).send().await
}

#[tokio::test]
async fn uploaded_archive_is_stored_once_verified() {
    let old = TestApp::with_owner().await;
    write_noise(old.data_dir(), 3);
    let made = create(&old, &json!({})).await;
    let archive = download(&old, &text(&made, "name")).await.body;
    let new = TestApp::with_owner().await;
    let uploaded = upload(&new, archive.clone()).await.expect_status(201).json();
    assert!(text(&uploaded, "name").starts_with("upload-"), "{uploaded}");
    assert_eq!((&uploaded["size_bytes"], &uploaded["created_at"]), (&made["size_bytes"], &made["created_at"]));
    // A repeated upload returns the stored archive.
    assert_eq!(upload(&new, archive.clone()).await.expect_status(201).json(), uploaded);
    assert_eq!(list(&new).await, std::slice::from_ref(&uploaded));
    assert_eq!(download(&new, &text(&uploaded, "name")).await.body, archive);
}

#[tokio::test]
async fn invalid_upload_is_rejected_and_leaves_no_files() {
    let app = TestApp::with_owner().await;
    let made = create(&app, &json!({})).await;
    let archive = download(&app, &text(&made, "name")).await.body;
    let newer = repack(&archive, |_, path, content| {
        if path == b"manifest.json" {
            let text = String::from_utf8(content.clone()).expect("JSON");
            *content = text.replace("\"format_version\": 2", "\"format_version\": 3").into();
        }
        true
    });
    let changed = repack(&archive, |_, path, content| {
        if path == b"database.jsonl" {
            content.push(b'\n');
        }
        true
    });
    // Readable in full, but the beginning lacks a manifest.
    let renamed = repack(&archive, |_, path, _| {
        if path == b"manifest.json" {
            path.push(b'/');
        }
        true
    });
    let before = files(&app);
    for (code, bad) in [
        ("bad_archive", archive[..archive.len() - 1].to_vec()),
        ("bad_archive", archive[..archive.len() / 2].to_vec()),
        ("bad_archive", b"PK\x03\x04 something else".repeat(100)),
        ("bad_archive", Vec::new()),
        ("bad_archive", changed),
        ("bad_archive", renamed),
        ("newer_format", newer),
    ] {
        upload(&app, bad).await.expect_error(400, code);
        assert_eq!(files(&app), before);
    }
    app.put("/api/settings/backup").json(&json!({"limit_mb": 10})).send().await.expect_status(200);
    let mut large = vec![0; 11 << 20];
    agentd_base::Entropy::seeded(1).fill(&mut large);
    upload(&app, large).await.expect_error(409, "backups_full");
    assert_eq!(files(&app), before);
}

#[tokio::test]
async fn one_upload_runs_at_a_time_and_a_disconnected_client_leaves_no_files() {
    let app = TestApp::with_owner().await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let body = futures_util::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let request = app.post("/api/backups/upload").body("application/octet-stream", reqwest::Body::wrap_stream(body));
    let uploading = tokio::spawn(request.send());
    sender.send(Ok(vec![0x1f, 0x8b, 8, 0])).await.expect("the chunk is accepted");
    let mut eventually = Eventually::new();
    while files(&app).is_empty() {
        eventually.retry().await;
    }
    upload(&app, vec![0x1f]).await.expect_error(409, "busy");
    // A partial upload is not listed, and a concurrent backup does not delete it as abandoned.
    let made = create(&app, &json!({})).await;
    assert_eq!(files(&app).len(), 2);
    app.delete(&format!("{BACKUPS}/{}", text(&made, "name"))).send().await.expect_status(200);
    uploading.abort();
    drop(sender);
    let mut eventually = Eventually::new();
    while !files(&app).is_empty() {
        eventually.retry().await;
    }
}
