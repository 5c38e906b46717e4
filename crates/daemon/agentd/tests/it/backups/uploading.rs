//! Archives from elsewhere.

use serde_json::json;

use super::*;
use crate::backup::refusing::repack;
use crate::support::TestApp;

async fn upload(app: &TestApp, archive: Vec<u8>) -> TestResponse {
    app.post("/api/backups/upload").body("application/octet-stream", archive).send().await
}

#[tokio::test]
async fn an_archive_is_kept_once_all_of_it_was_read() {
    let old = TestApp::with_owner().await;
    write_noise(old.data_dir(), 3);
    let made = make(&old, &json!({})).await;
    let archive = download(&old, &text(&made, "name")).await.body;
    let new = TestApp::with_owner().await;
    let kept = upload(&new, archive.clone()).await.expect_status(201).json();
    assert!(text(&kept, "name").starts_with("upload-"), "{kept}");
    assert_eq!((&kept["size_bytes"], &kept["created_at"]), (&made["size_bytes"], &made["created_at"]));
    // The same once more is the same.
    assert_eq!(upload(&new, archive.clone()).await.expect_status(201).json(), kept);
    assert_eq!(list(&new).await, std::slice::from_ref(&kept));
    assert_eq!(download(&new, &text(&kept, "name")).await.body, archive);
}

#[tokio::test]
async fn what_is_not_whole_or_none_is_refused_and_leaves_nothing() {
    let app = TestApp::with_owner().await;
    let made = make(&app, &json!({})).await;
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
    // Whole for who reads all of it, and found by nobody who looks at its beginning.
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
async fn one_is_uploaded_at_a_time_and_a_client_that_goes_away_leaves_nothing() {
    let app = TestApp::with_owner().await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let body = futures_util::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let request = app.post("/api/backups/upload").body("application/octet-stream", reqwest::Body::wrap_stream(body));
    let uploading = tokio::spawn(request.send());
    sender.send(Ok(vec![0x1f, 0x8b, 8, 0])).await.expect("it is taken");
    let mut eventually = Eventually::new();
    while files(&app).is_empty() {
        eventually.look_again().await;
    }
    upload(&app, vec![0x1f]).await.expect_error(409, "busy");
    // What is not whole is no backup, and what is made meanwhile does not take it for an abandoned one.
    let made = make(&app, &json!({})).await;
    assert_eq!(files(&app).len(), 2);
    app.delete(&format!("{BACKUPS}/{}", text(&made, "name"))).send().await.expect_status(200);
    uploading.abort();
    drop(sender);
    let mut eventually = Eventually::new();
    while !files(&app).is_empty() {
        eventually.look_again().await;
    }
}
