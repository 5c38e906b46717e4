//! Catalog of tool servers and installation from it.

use serde_json::json;

use super::SERVERS;
use crate::support::TestApp;

#[tokio::test]
async fn catalog_entry_can_be_installed() {
    let app = TestApp::with_owner().await;
    let catalog = app.get(&format!("{SERVERS}/catalog")).send().await.expect_status(200).json();
    assert!(catalog["total"].as_u64().unwrap() >= 12);
    let entry = catalog["entries"].as_array().unwrap().iter().find(|entry| entry["id"] == "filesystem").unwrap();
    assert_eq!((&entry["transport"], &entry["runner"]), (&json!("stdio"), &json!("npx")));
    assert_eq!(entry["values"][0]["name"], "directories");

    let folder = tempfile::tempdir().unwrap();
    let path = format!("{SERVERS}/catalog/filesystem/install");
    let fields = json!({"values": {"directories": [folder.path()]}, "enabled": false});
    let made = app.post(&path).json(&fields).send().await.expect_status(201).json();
    assert_eq!((&made["catalog_entry"], &made["command"]), (&json!("filesystem"), &json!("npx")));
    assert_eq!((&made["writable_paths"], &made["network"]), (&json!([folder.path()]), &json!(true)));
    assert_eq!(made["trusted"], false);
    app.post(&path).json(&fields).send().await.expect_error(409, "name_taken");
    let own =
        json!({"values": {"directories": [folder.path()]}, "enabled": false, "name": "mine", "program": "/opt/files"});
    let own = app.post(&path).json(&own).send().await.expect_status(201).json();
    assert_eq!((&own["command"], &own["network"]), (&json!("/opt/files"), &json!(false)));

    let refused = app.post(&path).json(&json!({"values": {"directory": "/a"}})).send().await;
    let refused = refused.expect_error(400, "invalid_request").json();
    assert_eq!(refused["fields"].as_array().unwrap().len(), 2, "{refused}");
    let unknown = format!("{SERVERS}/catalog/no-such/install");
    app.post(&unknown).json(&json!({})).send().await.expect_error(404, "catalog_entry_not_found");
}

#[tokio::test]
async fn secrets_of_a_catalog_entry_are_encrypted() {
    let app = TestApp::with_owner().await;
    let fields = json!({"values": {"token": "very-secret"}, "enabled": false});
    let made = app.post(&format!("{SERVERS}/catalog/github/install")).json(&fields).send().await.expect_status(201);
    assert!(!made.text().contains("very-secret"));
    assert_eq!(made.json()["headers"], json!({"authorization": {"set": true}}));
}
