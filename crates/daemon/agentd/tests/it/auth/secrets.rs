//! Secrets are not stored in plain text.

use std::path::Path;

use serde_json::json;

use super::{create_key, log_in, text};
use crate::support::{TestApp, TestPage};

#[tokio::test]
async fn data_directory_contains_no_secret_in_plain_text() {
    let mut app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&super::account()).send().await.expect_status(201).json();
    let mut secrets = vec!["correct horse".to_owned(), text(&registered, "token")];
    let first = app.post("/api/auth/keys").json(&json!({"name": "first"})).send().await.expect_status(200).json();
    app.key = Some(text(&first, "key"));
    let (id, key) = create_key(&app, json!({"name": "second"})).await;
    let rotated = app.post(&format!("/api/auth/keys/{id}/rotate")).header("idempotency-key", "a").send().await;
    let ticket = app.post("/api/auth/ticket").header("idempotency-key", "b").send().await.expect_status(200).json();
    secrets.extend([
        text(&first, "key"),
        key,
        text(&rotated.expect_status(200).json(), "key"),
        text(&ticket, "ticket"),
    ]);
    secrets.push(log_in(&app).await);
    let page = TestPage::sign_in(&app).await;
    page.get(&app, "/api/agents").send().await.expect_status(200);
    page.reauthenticate(&app, "correct horse").await.expect_status(200);
    secrets.extend([page.token().to_owned(), page.secret]);
    // Users type passwords into the wrong field.
    for (username, password) in [("hunter2 as a user", "owner"), ("owner", "hunter3 as a guess")] {
        let body = json!({"username": username, "password": password});
        app.post("/api/auth/login").anonymous().json(&body).send().await.expect_status(401);
    }
    secrets.extend(["hunter2 as a user".to_owned(), "hunter3 as a guess".to_owned()]);
    app.run_workers().await;
    let mut files = Vec::new();
    collect(app.data_dir(), &mut files);
    app.stop().await;
    collect(app.data_dir(), &mut files);
    assert!(!files.is_empty());
    for (name, bytes) in &files {
        for secret in &secrets {
            // Neither the digits alone nor the bytes they encode may appear.
            let digits = secret.rsplit('_').next().unwrap_or(secret);
            let raw = hex::decode(digits).unwrap_or_else(|_| digits.as_bytes().to_vec());
            for needle in [secret.as_bytes(), digits.as_bytes(), &raw] {
                assert!(!bytes.windows(needle.len()).any(|part| part == needle), "{name} contains a secret");
            }
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        // Symbolic links belong to the sandbox and lead to files of the system.
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            collect(&path, files);
        } else if kind.is_file()
            && let Ok(bytes) = std::fs::read(&path)
        {
            files.push((path.display().to_string(), bytes));
        }
    }
}
