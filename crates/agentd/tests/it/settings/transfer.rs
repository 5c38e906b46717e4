//! Export and import of all settings.

use serde_json::{Value, json};

use super::avatar::{GIF, upload};
use super::{get, put};
use crate::support::TestApp;

#[tokio::test]
async fn an_export_can_be_imported_elsewhere() {
    let app = TestApp::with_owner().await;
    put(&app, "profile", json!({"display_name": "Ada", "timezone": "Asia/Tokyo"})).await.expect_status(200);
    put(&app, "security", json!({"blocked_hosts": ["EVIL.example."]})).await.expect_status(200);
    put(&app, "agent", json!({"temperature": 1.5, "default_provider": "xai"})).await.expect_status(200);
    put(&app, "strategy", json!({"reflection": true, "max_parallel_tools": 2})).await.expect_status(200);
    let proactive = json!({"delivery": "email:ada@example.org", "quiet_hours": {"timezone": "Asia/Tokyo"}});
    put(&app, "proactive", proactive).await.expect_status(200);
    upload(&app, "file", GIF).await.expect_status(200);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"agentd-settings.json\""));
    let file = export.json();
    assert!(file["settings"]["profile"].get("avatar_url").is_none(), "a picture is no setting");

    let other = TestApp::with_owner().await;
    let imported = other.post("/api/settings/import").json(&file).send().await.expect_status(200).json();
    for category in ["agent", "strategy", "proactive", "email"] {
        assert_eq!(imported[category], get(&app, category).await, "{category}");
    }
    assert_eq!(imported["security"]["blocked_hosts"], json!(["evil.example"]));
    assert_eq!(imported["profile"]["timezone"], "Asia/Tokyo");
    // Here the picture stays what it is.
    let avatar = get(&app, "profile").await["avatar_url"].clone();
    app.post("/api/settings/import").json(&file).send().await.expect_status(200);
    assert_eq!(get(&app, "profile").await["avatar_url"], avatar);
}

#[tokio::test]
async fn an_import_is_all_or_nothing() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/settings").send().await.json();
    let import =
        async |settings: Value| app.post("/api/settings/import").json(&json!({"settings": settings})).send().await;
    let refused = import(json!({"profile": {"display_name": "Ada"}, "agent": {"temperature": 9, "nope": 1}})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent.nope", "settings.agent.temperature"]);
    let refused = import(json!({"profile": {"theme": "x"}, "weather": {}, "agent": 1})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent", "settings.profile.theme", "settings.weather"]);
    app.post("/api/settings/import").json(&json!({"profile": {}})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({"settings": {}, "format": 2})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({})).send().await.expect_status(400);
    assert_eq!(app.get("/api/settings").send().await.json(), before);

    // Larger than other bodies may be, and refused only for what is in it.
    let large = json!({"settings": {"agent": {"instructions": "x".repeat(3 * 1024 * 1024)}}});
    let refused = app.post("/api/settings/import").json(&large).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["settings.agent.instructions"]);
}

#[tokio::test]
async fn skills_travel_with_the_settings() {
    let app = TestApp::with_owner().await;
    app.post("/api/settings/skills/builtin/http_fetch/toggle").send().await.expect_status(200);
    let tool = json!({"name": "weather", "description": "Tells the weather.", "kind": "http",
        "request": {"method": "GET", "url": "https://weather.example/", "secret_headers": {"x-key": "hidden-one"}}});
    app.post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
    let server = json!({"name": "docs", "transport": "http", "url": "https://mcp.example/", "enabled": false,
        "headers": {"authorization": "Bearer hidden-two"}});
    app.post("/api/settings/skills/mcp").json(&server).send().await.expect_status(201);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("hidden"), "{}", export.text());
    let skills = export.json()["settings"]["skills"].clone();
    assert_eq!(skills["builtin_off"], json!(["http_fetch"]));
    assert_eq!(app.get("/api/settings").send().await.json()["skills"], skills);

    let other = TestApp::with_owner().await;
    for _ in 0..2 {
        let imported = other.post("/api/settings/import").json(&export.json()).send().await.expect_status(200).json();
        assert_eq!(imported["skills"], skills);
    }
    let tools = other.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(
        (&tools["total"], &tools["tools"][0]["request"]["secret_headers"]),
        (&json!(1), &json!({"x-key": {"set": false}}))
    );
    let servers = other.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(
        (&servers["total"], &servers["servers"][0]["headers"]["authorization"]),
        (&json!(1), &json!({"set": false}))
    );
    // Here the values are there, and stay.
    app.post("/api/settings/import").json(&export.json()).send().await.expect_status(200);
    let servers = app.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(servers["servers"][0]["headers"]["authorization"], json!({"set": true}));
    let tools = app.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(tools["tools"][0]["request"]["secret_headers"], json!({"x-key": {"set": true}}));

    let bad = json!({"settings": {"skills": {"mcp": [{"name": "x"}], "nope": 1}, "agent": {"temperature": 9}}});
    let refused = app.post("/api/settings/import").json(&bad).send().await.expect_error(400, "invalid_request");
    let fields = refused.bad_fields();
    for field in ["settings.agent.temperature", "settings.skills.nope", "settings.skills.mcp[0].transport"] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
}
