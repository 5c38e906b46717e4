//! Credentials of the daemon allow changing settings but not reading secrets.

mod destinations;
mod echoes;
mod urls;

use serde_json::{Value, json};

use crate::support::TestApp;

/// Creates a read-only API key.
async fn reader(app: &TestApp) -> String {
    let made = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await;
    made.expect_status(200).json()["key"].as_str().expect("a key").to_owned()
}

async fn create(app: &TestApp, path: &str, body: Value) -> String {
    let made = app.post(path).json(&body).send().await.expect_status(201).json();
    format!("{path}/{}", made["id"].as_str().expect("an id"))
}

/// Returns a dump of the database, as in a backup.
async fn dump(app: &TestApp) -> String {
    let mut dump = Vec::new();
    app.running().context().db.dump(&mut dump, &[]).await.expect("a dump");
    String::from_utf8(dump).expect("text")
}
