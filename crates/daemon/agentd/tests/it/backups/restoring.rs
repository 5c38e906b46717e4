//! Restore of stored backups.

use serde_json::{Value, json};

use super::*;
use crate::support::TestApp;

async fn make_agent(app: &TestApp, name: &str) {
    let agent = json!({"svc_name": name, "user_name": "Owner", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
}

async fn log_in(app: &TestApp) -> String {
    let account = json!({"username": "owner", "password": "correct horse"});
    text(&app.post("/api/auth/login").anonymous().json(&account).send().await.expect_status(200).json(), "token")
}

async fn restore(app: &TestApp, name: &str, passphrase: Option<&str>) -> Value {
    let mut body = json!({"confirm": name});
    if let Some(passphrase) = passphrase {
        body["passphrase"] = json!(passphrase);
    }
    let mut eventually = Eventually::new();
    let begun = loop {
        let answer = app.post(&format!("{BACKUPS}/{name}/restore")).json(&body).send().await;
        if answer.status != 409 {
            break answer.expect_status(202).json();
        }
        // The database server notices a disconnected daemon with a delay.
        answer.expect_error(409, "other_daemons");
        eventually.retry().await;
    };
    assert_eq!((&begun["kind"], &begun["state"]), (&json!("restore"), &json!("running")));
    wait_until_ended(|| app.get(WORK)).await
}

#[tokio::test]
async fn restore_returns_to_the_state_of_the_backup() {
    let app = TestApp::with_owner().await;
    app.put("/api/providers/openai/key").json(&json!({"api_key": "sk-of-a-vendor"})).send().await.expect_status(200);
    make_agent(&app, "ada").await;
    let before = log_in(&app).await;
    let name = text(&create(&app, &json!({})).await, "name");
    make_agent(&app, "later").await;
    let since = log_in(&app).await;
    let path = format!("{BACKUPS}/{name}/restore");
    let refused = app.post(&path).json(&json!({"confirm": "another"})).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["confirm"]);
    let sealed = json!({"confirm": name, "passphrase": "correct horse battery"});
    app.post(&path).json(&sealed).send().await.expect_error(400, "no_secrets");

    let work = restore(&app, &name, None).await;
    assert_eq!((&work["state"], &work["secrets_missing"]), (&json!("done"), &json!([])), "{work}");
    app.get("/health/ready").send().await.expect_status(200);
    app.get("/api/agents/ada").send().await.expect_status(200);
    app.get("/api/agents/later").send().await.expect_status(404);
    app.get("/api/agents").bearer(&before).send().await.expect_status(200);
    app.get("/api/agents").bearer(&since).send().await.expect_error(401, "invalid_credential");
    // Backups do not contain backups.
    assert_eq!(list(&app).await.len(), 1);
    // The same backup can be restored again.
    let work = restore(&app, &name, None).await;
    assert_eq!(work["state"], "done");
}

#[tokio::test]
async fn restore_on_another_daemon_requires_the_passphrase_or_lists_missing_secrets() {
    let old = TestApp::with_owner().await;
    old.put("/api/providers/openai/key").json(&json!({"api_key": "sk-of-a-vendor"})).send().await.expect_status(200);
    let archive =
        download(&old, &text(&create(&old, &json!({"passphrase": "correct horse battery"})).await, "name")).await.body;
    let mut new = TestApp::with_owner().await;
    make_agent(&new, "stays").await;
    // Both daemons use the same seed, so their first keys are equal.
    let own = new.post("/api/auth/keys").json(&json!({"name": "own"})).send().await.expect_status(200).json();
    let own_key = text(&own, "key");
    let uploaded = new
        .post("/api/backups/upload")
        .body("application/octet-stream", archive)
        .send()
        .await
        .expect_status(201)
        .json();
    let name = text(&uploaded, "name");
    let wrong = restore(&new, &name, Some("another passphrase")).await;
    assert_eq!((&wrong["state"], &wrong["failure"]["code"]), (&json!("failed"), &json!("wrong_passphrase")), "{wrong}");
    new.get("/api/agents/stays").send().await.expect_status(200);

    let path = format!("{BACKUPS}/{name}/restore");
    new.post(&path).json(&json!({"confirm": name})).send().await.expect_status(202);
    // The credentials are now those of the old daemon.
    new.key.clone_from(&old.key);
    let mut eventually = Eventually::new();
    while new.get(WORK).send().await.status != 200 {
        eventually.retry().await;
    }
    let work = wait_until_ended(|| new.get(WORK)).await;
    let missing = json!([{"scope": "providers", "name": "openai"}]);
    assert_eq!((&work["state"], &work["secrets_missing"]), (&json!("done"), &missing), "{work}");
    new.get("/api/agents").bearer(&own_key).send().await.expect_error(401, "invalid_credential");
    new.get("/api/agents/stays").send().await.expect_status(404);
    // A secret that is entered again is no longer missing.
    new.put("/api/providers/openai/key").json(&json!({"api_key": "sk-again"})).send().await.expect_status(200);
    assert_eq!(new.get(WORK).send().await.json()["work"]["secrets_missing"], json!([]));
    let work = restore(&new, &name, Some("correct horse battery")).await;
    assert_eq!((&work["state"], &work["secrets_missing"]), (&json!("done"), &json!([])), "{work}");
}

#[tokio::test]
async fn restore_is_rejected_while_another_daemon_uses_the_database() {
    let app = TestApp::with_owner().await;
    let name = text(&create(&app, &json!({})).await, "name");
    let Some(mut replica) = app.replica_on_same_data_dir().await else { return };
    let path = format!("{BACKUPS}/{name}/restore");
    // The replica lists the backups in the shared folder.
    assert_eq!(list(&replica).await.len(), 1);
    app.post(&path).json(&json!({"confirm": name})).send().await.expect_error(409, "other_daemons");
    replica.stop().await;
    assert_eq!(restore(&app, &name, None).await["state"], "done");
}
