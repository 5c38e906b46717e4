//! Secrets in the config of Python hooks are stored and used, but never returned.

use agentd_store::args;
use serde_json::{Value, json};

use super::code::{app_without_sandbox, python};
use super::{HOOKS, create_hook, emit, only_execution, settle};
use crate::support::TestApp;

const API_KEY: &str = "key-5f0c1d7b9a";
const PASSWORD: &str = "correct-horse-battery";
const PIN: u64 = 481_516_234;

/// Returns digests of the secrets, because the values themselves are hidden in the output.
const DIGESTS: &str = "import hashlib\ndef digest(value): return hashlib.sha256(str(value).encode()).hexdigest()\n\
    result = [digest(config['api_key']), digest(config['smtp']['password']), digest(config['account']['pin'])]\n\
    print(config['api_key'], config['smtp']['host'])";

fn config() -> Value {
    json!({
        "api_key": API_KEY, "smtp": {"host": "mail.example.org", "password": PASSWORD},
        "secret_fields": ["account"], "account": {"pin": PIN}, "max_tokens": 100,
    })
}

fn digests(values: [&str; 3]) -> Value {
    json!(values.map(|value| hex::encode(agentd_base::sha256(value.as_bytes()))))
}

async fn hook_with_secrets(app: &TestApp) -> String {
    let mut hook = python(DIGESTS);
    hook["config"] = config();
    create_hook(app, hook).await
}

async fn put(app: &TestApp, id: &str, change: Value) -> crate::support::TestResponse {
    app.put(&format!("{HOOKS}/{id}")).json(&change).send().await
}

#[tokio::test]
async fn secrets_of_code_are_encrypted_and_shown_as_set() {
    let app = app_without_sandbox().await;
    let id = hook_with_secrets(&app).await;
    let set = json!({"set": true});
    let shown = app.get(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
    let expected = json!({
        "api_key": set, "smtp": {"host": "mail.example.org", "password": set},
        "secret_fields": ["account"], "account": {"pin": set}, "max_tokens": 100, "timeout_seconds": 30,
    });
    assert_eq!(shown.json()["config"], expected);
    let list = app.get(HOOKS).send().await.expect_status(200).text();
    let rows = app.running().context().db.read().await.unwrap().fetch_all("SELECT config FROM hooks", args![]).await;
    let stored: String = rows.unwrap()[0].get("config").unwrap();
    for text in [shown.text(), list, stored] {
        for secret in [API_KEY, PASSWORD, &PIN.to_string()] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let done = only_execution(&app, &id).await;
    assert_eq!(done["output"]["result"], digests([API_KEY, PASSWORD, &PIN.to_string()]), "{done}");
    assert_eq!(done["output"]["printed"], "[hidden] mail.example.org\n");
}

#[tokio::test]
async fn secrets_of_code_are_retained_replaced_and_cleared() {
    let app = app_without_sandbox().await;
    let id = hook_with_secrets(&app).await;
    let shown = app.get(&format!("{HOOKS}/{id}")).send().await.json()["config"].clone();
    // Sent back as shown, and together with changes that do not affect the use of secrets.
    put(&app, &id, json!({"config": shown, "name": "other"})).await.expect_status(200);
    put(&app, &id, json!({"config": {"timeout_seconds": 20}})).await.expect_status(200);

    // If code or config change, every retained secret must be entered again.
    let source = json!({"source_code": format!("{DIGESTS}\nprint('x')")});
    let host = json!({"config": {"smtp": {"host": "evil.example", "password": {"set": true}}}});
    for change in [source, host, json!({"config": {"note": "x"}})] {
        let mut fields = put(&app, &id, change).await.expect_error(400, "invalid_request").bad_fields();
        fields.sort();
        assert_eq!(fields, ["config.account.pin", "config.api_key", "config.smtp.password"]);
    }
    let unknown = json!({"config": {"other_token": {"set": true}}});
    let fields = put(&app, &id, unknown).await.expect_error(400, "invalid_request").bad_fields();
    assert!(fields.contains(&"config.other_token".to_owned()), "{fields:?}");
    assert_eq!(app.get(&format!("{HOOKS}/{id}")).send().await.json()["config"]["smtp"]["host"], "mail.example.org");

    // Secrets are entered again, and one is cleared.
    let change = json!({"config": {"api_key": "another-key", "account": null, "secret_fields": null,
        "smtp": {"host": "mail.example.com", "password": PASSWORD}}});
    let changed = put(&app, &id, change).await.expect_status(200).json();
    assert_eq!((&changed["config"]["api_key"], &changed["config"]["account"]), (&json!({"set": true}), &Value::Null));
    let rows = app.running().context().db.read().await.unwrap().fetch_all("SELECT name FROM secrets", args![]).await;
    assert_eq!(rows.unwrap().len(), 2, "the cleared secret is deleted");

    app.delete(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
    let rows = app.running().context().db.read().await.unwrap().fetch_all("SELECT name FROM secrets", args![]).await;
    assert_eq!(rows.unwrap().len(), 0);
}

#[tokio::test]
async fn declared_secret_fields_are_validated() {
    let app = app_without_sandbox().await;
    for names in [json!("pin"), json!([""]), json!([1]), json!(vec!["x"; 33]), json!(["x".repeat(65)])] {
        let mut hook = python("pass");
        hook["config"] = json!({"secret_fields": names});
        let refused = app.post(HOOKS).json(&hook).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["config.secret_fields"]);
    }
    let many: serde_json::Map<String, Value> = (0..65).map(|number| (format!("token{number}"), json!("x"))).collect();
    let mut hook = python("pass");
    hook["config"] = Value::Object(many);
    let refused = app.post(HOOKS).json(&hook).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["config"]);
}
