//! Secrets must be entered again when their destination changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::create;
use crate::support::document::{DOCUMENT, operations};
use crate::support::smtp::{PASSWORD, Protection, SmtpServer, USERNAME};
use crate::support::{TestApp, TestResponse};

async fn put(app: &TestApp, path: &str, body: Value) -> TestResponse {
    app.put(path).json(&body).send().await
}

fn refused(answer: TestResponse, fields: &[&str]) {
    let text = answer.text();
    let mut found = answer.expect_error(400, "invalid_request").bad_fields();
    found.sort();
    assert_eq!(found, fields, "{text}");
    assert!(text.contains("must be entered again") || text.contains("is required"), "{text}");
}

const EMAIL: &str = "/api/settings/email";

#[tokio::test]
async fn mail_password_does_not_follow_to_another_server() {
    let app = TestApp::with_owner().await;
    let attacker = SmtpServer::start(Protection::None, "PLAIN LOGIN").await;
    let there = json!({"enabled": true, "smtp_host": "mail.example.org", "smtp_port": 587, "tls": "starttls",
        "from_address": "agentd@example.org", "username": USERNAME, "password": PASSWORD});
    put(&app, EMAIL, there.clone()).await.expect_status(200);
    let elsewhere = json!({"smtp_host": "127.0.0.1", "smtp_port": attacker.address.port(), "tls": "none"});
    let shown = json!({"smtp_host": "127.0.0.1", "password": {"set": true}});
    for change in [
        elsewhere.clone(),
        shown,
        json!({"smtp_port": 25}),
        json!({"tls": "none"}),
        json!({"smtp_host": null, "enabled": false}),
    ] {
        refused(put(&app, EMAIL, change).await, &["password"]);
    }
    // An import does not transfer it either.
    let import = json!({"settings": {"email": elsewhere}});
    let imported = app.post("/api/settings/import").json(&import).send().await.expect_status(200).json();
    assert_eq!(
        (&imported["dropped_secrets"], &imported["email"]["password"]),
        (&json!(["email.password"]), &Value::Null)
    );
    let test = app.post("/api/settings/email/test").json(&json!({"to": "a@example.org"})).send().await;
    assert_ne!(test.status, 200);
    assert!(attacker.received().is_empty());
    // Changes without a new destination need no password; a new password or none is accepted for any server.
    put(&app, EMAIL, there).await.expect_status(200);
    for change in [
        json!({"smtp_host": "MAIL.example.org.", "tls": "implicit", "username": "other"}),
        json!({"smtp_host": "mail.example.com", "password": "another"}),
        json!({"smtp_host": "127.0.0.1", "tls": "none", "password": null}),
    ] {
        put(&app, EMAIL, change).await.expect_status(200);
    }
}

#[tokio::test]
async fn channel_tokens_do_not_follow_to_another_server() {
    let app = TestApp::with_owner().await;
    let path = "/api/channels/settings";
    for (platform, sent, kept) in [
        ("discord", &["bot_token"][..], &[][..]),
        ("slack", &["app_token", "bot_token"], &["signing_secret"]),
        ("telegram", &["bot_token", "secret_token"], &[]),
        ("whatsapp", &["access_token"], &["app_secret", "verify_token"]),
        ("teams", &["app_password"], &[]),
        ("google_chat", &["service_account"], &[]),
    ] {
        let mut secrets: serde_json::Map<String, Value> =
            sent.iter().chain(kept).map(|name| ((*name).to_owned(), json!("hidden-value-1"))).collect();
        put(&app, path, json!({platform: secrets.clone()})).await.expect_status(200);
        let fields: Vec<String> = sent.iter().map(|name| format!("{platform}.{name}")).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        for url in ["http://127.0.0.1:9/", "https://evil.example"] {
            refused(put(&app, path, json!({platform: {"api_base_url": url}})).await, &fields);
        }
        secrets.insert("api_base_url".to_owned(), json!("https://proxy.example/a"));
        put(&app, path, json!({platform: secrets})).await.expect_status(200);
        put(&app, path, json!({platform: {"api_base_url": "https://proxy.example/b"}})).await.expect_status(200);
        refused(put(&app, path, json!({platform: {"api_base_url": null}})).await, &fields);
        let import = json!({"settings": {"channels": {platform: {"api_base_url": "https://evil.example"}}}});
        let imported = app.post("/api/settings/import").json(&import).send().await.expect_status(200).json();
        let mut dropped: Vec<&str> =
            imported["dropped_secrets"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        dropped.sort_unstable();
        assert_eq!(dropped, fields.iter().map(|field| format!("channels.{field}")).collect::<Vec<_>>());
        for name in sent {
            assert_eq!(imported["channels"][platform][name], Value::Null);
        }
        for name in kept {
            assert_eq!(imported["channels"][platform][name], json!({"set": true}));
        }
    }
}

#[tokio::test]
async fn secrets_of_hooks_tools_and_providers_do_not_follow_to_another_destination() {
    let app = TestApp::with_owner().await;
    let secret = "0123456789abcdef0123456789abcdef";
    let config = json!({"url": "https://one.example/in", "secret": secret, "headers": {"Authorization": "Bearer one"}});
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http", "config": config});
    let hook = create(&app, "/api/hooks", hook).await;
    for url in ["https://two.example/in", "http://one.example/in"] {
        refused(
            put(&app, &hook, json!({"config": {"url": url}})).await,
            &["config.headers.Authorization", "config.secret"],
        );
        let again = json!({"config": {"url": url, "secret": {"set": true}, "headers": {"Authorization": "x"}}});
        refused(put(&app, &hook, again).await, &["config.secret"]);
    }
    put(&app, &hook, json!({"config": {"url": "https://one.example/other"}})).await.expect_status(200);

    let python = json!({"name": "p", "event_type": "memory.stored", "hook_type": "python", "source_code": "result = 1",
        "config": {"secret": secret}});
    let python = create(&app, "/api/hooks", python).await;
    refused(put(&app, &python, json!({"source_code": "result = config['secret']"})).await, &["config.secret"]);
    put(&app, &python, json!({"source_code": "result = 1", "name": "q"})).await.expect_status(200);
    put(&app, &python, json!({"source_code": "result = 2", "config": {"secret": null}})).await.expect_status(200);

    let server = json!({"name": "docs", "transport": "http", "url": "https://one.example/mcp", "enabled": false,
        "headers": {"authorization": "Bearer one"}});
    let server = create(&app, "/api/settings/skills/mcp", server).await;
    refused(put(&app, &server, json!({"url": "https://two.example/mcp"})).await, &["headers.authorization"]);
    let program =
        json!({"name": "prog", "transport": "stdio", "command": "uvx", "enabled": false, "env": {"TOKEN": "one"}});
    let program = create(&app, "/api/settings/skills/mcp", program).await;
    refused(put(&app, &program, json!({"command": "env"})).await, &["env.TOKEN"]);
    refused(put(&app, &program, json!({"args": ["-c"]})).await, &["env.TOKEN"]);

    let tool = json!({"name": "api", "description": "Asks.", "kind": "http",
        "request": {"url": "https://one.example/", "secret_headers": {"authorization": "Bearer one"}}});
    let tool = create(&app, "/api/settings/skills/custom", tool).await;
    let moved = json!({"request": {"url": "https://two.example/"}});
    refused(put(&app, &tool, moved).await, &["request.secret_headers.authorization"]);

    let key = "/api/providers/openai/key";
    put(&app, key, json!({"api_key": "sk-one-0123456789"})).await.expect_status(200);
    refused(put(&app, key, json!({"base_url": "https://two.example/v1"})).await, &["api_key"]);

    // An import drops the secrets and lists them.
    let mut skills =
        app.get("/api/settings/export").send().await.expect_status(200).json()["settings"]["skills"].clone();
    for server in skills["mcp"].as_array_mut().unwrap() {
        match server["transport"].as_str() {
            Some("http") => server["url"] = json!("https://two.example/mcp"),
            _ => server["args"] = json!(["-c"]),
        }
    }
    skills["custom"][0]["request"]["url"] = json!("https://two.example/");
    let import = json!({"settings": {"skills": skills}});
    let imported = app.post("/api/settings/import").json(&import).send().await.expect_status(200).json();
    let dropped: BTreeSet<&str> =
        imported["dropped_secrets"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let expected = [
        "skills.custom.api.secret_headers.authorization",
        "skills.mcp.docs.headers.authorization",
        "skills.mcp.prog.env.TOKEN",
    ];
    assert_eq!(dropped, BTreeSet::from(expected));
    for (path, field) in [(&server, "headers"), (&program, "env")] {
        let shown = app.get(path).send().await.expect_status(200).json();
        assert!(shown[field].as_object().unwrap().values().all(|state| state["set"] == false), "{shown}");
    }
}

/// Destination of a write-only field of a request.
#[derive(Debug, PartialEq)]
enum Sent {
    /// The secret is used by the request itself or only compared with received values.
    Nowhere,
    /// The destination is given by other fields; covered by a test above.
    ToFields,
}

/// Every new write-only field must be listed here with its destination and covered by a test above. The `config` of
/// hooks is
/// not in the document; it is tested above too.
#[tokio::test]
async fn every_write_only_field_has_a_known_destination() {
    const KNOWN: &[(&str, &str, Sent)] = &[
        ("EmailPatch", "password", Sent::ToFields),
        ("ChannelPatch", "discord.bot_token", Sent::ToFields),
        ("ChannelPatch", "google_chat.service_account", Sent::ToFields),
        ("ChannelPatch", "slack.app_token", Sent::ToFields),
        ("ChannelPatch", "slack.bot_token", Sent::ToFields),
        ("ChannelPatch", "slack.signing_secret", Sent::Nowhere),
        ("ChannelPatch", "teams.app_password", Sent::ToFields),
        ("ChannelPatch", "telegram.bot_token", Sent::ToFields),
        ("ChannelPatch", "telegram.secret_token", Sent::ToFields),
        ("ChannelPatch", "whatsapp.access_token", Sent::ToFields),
        ("ChannelPatch", "whatsapp.app_secret", Sent::Nowhere),
        ("ChannelPatch", "whatsapp.verify_token", Sent::Nowhere),
        ("CustomToolFields", "request.secret_headers.*", Sent::ToFields),
        ("UpdateCustomTool", "request.secret_headers.*", Sent::ToFields),
        ("ToolServerFields", "env.*", Sent::ToFields),
        ("ToolServerFields", "headers.*", Sent::ToFields),
        ("UpdateToolServer", "env.*", Sent::ToFields),
        ("UpdateToolServer", "headers.*", Sent::ToFields),
        ("SetupProvider", "api_key", Sent::ToFields),
        ("UpdateProviderKey", "api_key", Sent::ToFields),
        // Sent only to the host of the page where it was recorded; tested in `browser`.
        ("BrowserReplay", "secrets.*", Sent::Nowhere),
        ("CreateBackup", "passphrase", Sent::Nowhere),
        ("RestoreBackup", "passphrase", Sent::Nowhere),
        // The endpoint is its own destination and comes with its keys.
        ("NewPushSubscription", "endpoint", Sent::Nowhere),
        ("NewPushSubscription", "keys.auth", Sent::Nowhere),
        ("LoginRequest", "password", Sent::Nowhere),
        ("ReauthenticateRequest", "password", Sent::Nowhere),
        ("RegisterRequest", "password", Sent::Nowhere),
        ("PairDevice", "code", Sent::Nowhere),
        ("WebhookFields", "secret", Sent::Nowhere),
        ("WebhookUpdate", "secret", Sent::Nowhere),
    ];
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for operation in operations() {
        let Some(body) = operation.value.pointer("/requestBody/content/application~1json/schema") else { continue };
        let optional = || body["oneOf"].as_array()?.iter().find_map(|part| part["$ref"].as_str());
        let reference = body["$ref"].as_str().or_else(optional);
        let name = reference.and_then(|path| path.rsplit('/').next()).unwrap_or(&operation.id).to_owned();
        if seen.insert(name.clone()) {
            write_only(body, "", &[], &mut |path| found.push((name.clone(), path)));
        }
    }
    let known = |(schema, path): &&(String, String)| KNOWN.iter().any(|known| (known.0, known.1) == (schema, path));
    let unknown: Vec<_> = found.iter().filter(|found| !known(found)).collect();
    assert!(unknown.is_empty(), "add the destination of these fields: {unknown:#?}");
    let gone = KNOWN.iter().filter(|known| !found.iter().any(|found| (known.0, known.1) == (&found.0, &found.1)));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&(&str, &str, Sent)>::new(), "these fields no longer exist");
}

/// Calls `found` with the path of every write-only field of a schema. `within` contains the enclosing references.
fn write_only(schema: &Value, path: &str, within: &[&str], found: &mut dyn FnMut(String)) {
    if let Some(reference) = schema["$ref"].as_str() {
        // Stops at recursive schemas.
        if !within.contains(&reference) {
            let schema = DOCUMENT.pointer(reference.trim_start_matches('#')).expect("a schema");
            write_only(schema, path, &[within, &[reference]].concat(), found);
        }
        return;
    }
    if schema["writeOnly"] == true {
        return found(path.to_owned());
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        write_only(property, &below(name), within, found);
    }
    for each in ["additionalProperties", "items"].iter().filter_map(|each| schema.get(each)) {
        write_only(each, &below("*"), within, found);
    }
    for all in ["oneOf", "anyOf", "allOf"] {
        for part in schema[all].as_array().into_iter().flatten() {
            write_only(part, path, within, found);
        }
    }
}
