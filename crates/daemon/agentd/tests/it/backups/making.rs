//! Create, list, download, and delete backups; other files are not backups.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::*;
use crate::support::TestApp;

#[tokio::test]
async fn backup_is_created_listed_downloaded_and_deleted() {
    let app = TestApp::with_owner().await;
    assert_eq!(app.get(WORK).send().await.expect_status(200).json(), json!({"work": null}));
    let mut stream = app.get("/api/events/stream?types=backup").stream().await;
    assert_eq!(stream.next().await.expect("it begins").event, "ready");
    let made = create(&app, &json!({})).await;
    let name = text(&made, "name");
    assert!(name.starts_with("backup-2026-01-05T09-00-00-") && name.ends_with(".tar.gz"), "{name}");
    assert_eq!(
        (&made["has_secrets"], &made["daily"], &made["left_out_count"]),
        (&json!(false), &json!(false), &json!(0))
    );
    assert_eq!(
        (&made["created_at"], &made["version"]),
        (&json!("2026-01-05T09:00:00.000Z"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let published = stream.next().await.expect("an event");
    assert_eq!((published.event.as_str(), &published.data["data"]["name"]), ("backup.created", &json!(name)));

    let path = app.data_dir().join("backups").join(&name);
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&app.data_dir().join("backups"))), (0o600, 0o700));
    let downloaded = download(&app, &name).await.expect_status(200);
    assert_eq!(downloaded.header("content-type"), Some("application/gzip"));
    assert_eq!(downloaded.header("content-disposition"), Some(format!("attachment; filename=\"{name}\"").as_str()));
    assert_eq!(downloaded.body, std::fs::read(&path).expect("the file"));
    assert_eq!(made["size_bytes"], downloaded.body.len());
    let listed = app.get(BACKUPS).send().await.json();
    assert_eq!((&listed["total_bytes"], &listed["limit_bytes"]), (&made["size_bytes"], &json!(51_200_u64 << 20)));

    let one = format!("{BACKUPS}/{name}");
    assert_eq!(app.delete(&one).send().await.expect_status(200).json(), json!({"deleted": true}));
    assert!(list(&app).await.is_empty() && files(&app).is_empty());
    app.delete(&one).send().await.expect_error(404, "not_found");
    download(&app, &name).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn backup_contains_secrets_only_with_a_passphrase() {
    let app = TestApp::with_owner().await;
    app.put("/api/providers/openai/key").json(&json!({"api_key": "sk-of-a-vendor"})).send().await.expect_status(200);
    let plain = create(&app, &json!({})).await;
    assert_eq!((&plain["has_secrets"], &plain["secret_count"]), (&json!(false), &json!(1)));
    let refused = app.post(BACKUPS).json(&json!({"passphrase": "short"})).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["passphrase"]);
    let sealed = create(&app, &json!({"passphrase": "correct horse battery"})).await;
    assert_eq!(sealed["has_secrets"], true);
    let work = std::fs::read_to_string(app.data_dir().join("backups/work.json")).expect("the work");
    assert!(!work.contains("correct horse"), "{work}");
}

#[tokio::test]
async fn read_key_has_no_access_to_backups() {
    let app = TestApp::with_owner().await;
    let name = text(&create(&app, &json!({})).await, "name");
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await.json();
    let key = text(&key, "key");
    for path in [BACKUPS.to_owned(), WORK.to_owned(), format!("{BACKUPS}/{name}/download")] {
        app.get(&path).bearer(&key).send().await.expect_error(403, "insufficient_scope");
    }
}

#[tokio::test]
async fn other_files_in_the_folder_are_not_backups() {
    let app = TestApp::with_owner().await;
    let name = text(&create(&app, &json!({})).await, "name");
    let folder = app.data_dir().join("backups");
    std::fs::write(folder.join("before-migration-1-to-2.db"), "the store's").expect("written");
    std::fs::write(folder.join("nonsense.tar.gz"), "no archive").expect("written");
    std::os::unix::fs::symlink(folder.join(&name), folder.join("link.tar.gz")).expect("a link");
    std::fs::create_dir(folder.join("folder.tar.gz")).expect("a folder");
    let names: Vec<String> = list(&app).await.iter().map(|backup| text(backup, "name")).collect();
    assert_eq!(names, std::slice::from_ref(&name));
    for other in [
        "before-migration-1-to-2.db",
        "link.tar.gz",
        "folder.tar.gz",
        "work.json",
        "..%2f..%2fsecret.key",
        "..%2fx.tar.gz",
        &format!("x%2f..%2f{name}"),
    ] {
        download(&app, other).await.expect_error(404, "not_found");
        app.delete(&format!("{BACKUPS}/{other}")).send().await.expect_error(404, "not_found");
        let restore = json!({"confirm": other});
        app.post(&format!("{BACKUPS}/{other}/restore")).json(&restore).send().await.expect_error(404, "not_found");
    }
    download(&app, "nonsense.tar.gz").await.expect_error(400, "bad_archive");
    assert!(folder.join("before-migration-1-to-2.db").exists() && app.data_dir().join("secret.key").exists());
}

#[tokio::test]
async fn number_and_total_size_of_backups_are_limited() {
    let app = TestApp::with_owner().await;
    let name = text(&create(&app, &json!({})).await, "name");
    let folder = app.data_dir().join("backups");
    for number in 1..50 {
        std::fs::copy(folder.join(&name), folder.join(format!("copy-{number}.tar.gz"))).expect("a copy");
    }
    app.post(BACKUPS).json(&json!({})).send().await.expect_error(409, "too_many_backups");
    let archive = std::fs::read(folder.join(&name)).expect("the archive");
    let upload = app.post("/api/backups/upload").body("application/octet-stream", archive).send().await;
    upload.expect_error(409, "too_many_backups");
    for number in 1..50 {
        app.delete(&format!("{BACKUPS}/copy-{number}.tar.gz")).send().await.expect_status(200);
    }
    app.put("/api/settings/backup").json(&json!({"limit_mb": 10})).send().await.expect_status(200);
    write_noise(app.data_dir(), 11);
    app.post(BACKUPS).json(&json!({})).send().await.expect_status(202);
    let work = wait_until_ended(|| app.get(WORK)).await;
    assert_eq!((&work["state"], &work["failure"]["code"]), (&json!("failed"), &json!("backups_full")), "{work}");
    assert_eq!(files(&app), [name], "no partial file remains");
}

#[tokio::test]
async fn concurrent_operation_is_rejected_as_busy() {
    let app = TestApp::with_owner().await;
    let name = text(&create(&app, &json!({})).await, "name");
    let lock = agentd_core::runtime::FileLock::try_acquire(&app.data_dir().join("backup.lock"))
        .expect("a lock")
        .expect("free");
    app.post(BACKUPS).json(&json!({})).send().await.expect_error(409, "busy");
    let restore = app.post(&format!("{BACKUPS}/{name}/restore")).json(&json!({"confirm": name}));
    restore.send().await.expect_error(409, "busy");
    drop(lock);
    create(&app, &json!({"allow_incomplete": true})).await;
}

#[tokio::test]
async fn unwritable_folder_fails_the_request() {
    let app = TestApp::with_owner().await;
    let blocked: Value = json!({});
    std::fs::write(app.data_dir().join("backups"), "in the way").expect("written");
    app.post(BACKUPS).json(&blocked).send().await.expect_status(500);
    std::fs::remove_file(app.data_dir().join("backups")).expect("removed");
    create(&app, &blocked).await;
}
