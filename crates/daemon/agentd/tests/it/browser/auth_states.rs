//! Saved authentication states.

use serde_json::{Value, json};

use super::{act, get, has_chromium, open, start};
use crate::support::{TestApp, TestResponse};

const STATES: &str = "/api/browser/auth-states";

async fn save(app: &TestApp, body: Value) -> TestResponse {
    app.post(STATES).json(&body).send().await
}

/// An authentication state in the format of Playwright.
fn playwright_state(origin: &str) -> Value {
    json!({
        "cookies": [{"name": "session", "value": "sealed-cookie", "domain": "127.0.0.1", "path": "/", "expires": -1,
            "httpOnly": true, "secure": false, "sameSite": "Lax"}],
        "origins": [{"origin": origin, "localStorage": [{"name": "token", "value": "sealed-token"}]}]
    })
}

#[tokio::test]
async fn auth_states_are_stored_encrypted_without_a_browser() {
    let app = TestApp::with_owner().await;
    assert_eq!(get(&app, STATES).await, json!({"auth_states": [], "total": 0}));
    save(&app, json!({"name": "shop"})).await.expect_error(409, "browser_not_running");
    let state = playwright_state("https://shop.example");
    let saved = save(&app, json!({"name": "shop", "state": state})).await.expect_status(201).json();
    assert_eq!((&saved["name"], &saved["cookies"], &saved["origins"]), (&json!("shop"), &json!(1), &json!(1)));
    save(&app, json!({"name": "empty", "state": {}})).await.expect_status(201);
    let again = save(&app, json!({"name": "shop", "state": state})).await.expect_status(201).json();
    assert_eq!(again["created_at"], saved["created_at"]);
    let list = app.get(STATES).send().await.expect_status(200);
    assert!(!list.text().contains("sealed"), "{}", list.text());
    let list = list.json();
    assert_eq!((&list["total"], &list["auth_states"][0]["name"]), (&json!(2), &json!("empty")));
    let mut read = get(&app, &format!("{STATES}/shop")).await;
    read["cookies"][0]["expires"] = json!(-1);
    assert_eq!(read, state);

    for name in ["", "a/b", "../x", "A", "-a", &"a".repeat(64)] {
        let refused = save(&app, json!({"name": name, "state": {}})).await.expect_error(400, "invalid_request");
        assert!(refused.bad_fields().iter().all(|field| field == "name"), "{name}");
    }
    for origin in ["file:///etc", "https://shop.example/path", "shop.example"] {
        let state = json!({"origins": [{"origin": origin}]});
        save(&app, json!({"name": "bad", "state": state})).await.expect_error(400, "invalid_action");
    }
    // The size limit is that of a session.
    let of_size = |mebibytes: usize| {
        let items = json!([{"name": "kept", "value": "v".repeat(mebibytes << 20)}]);
        json!({"name": "large", "state": {"origins": [{"origin": "https://shop.example", "localStorage": items}]}})
    };
    save(&app, of_size(7)).await.expect_status(201);
    save(&app, of_size(9)).await.expect_error(409, "limit_exceeded");
    app.delete(&format!("{STATES}/large")).send().await.expect_status(200);
    for path in [format!("{STATES}/none"), format!("{STATES}/..%2Fx")] {
        app.get(&path).send().await.expect_error(404, "auth_state_not_found");
        app.delete(&path).send().await.expect_error(404, "auth_state_not_found");
        app.post(&format!("{path}/restore")).send().await.expect_error(404, "auth_state_not_found");
    }
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await.json();
    let key = key["key"].as_str().expect("a key");
    for path in [STATES.to_owned(), format!("{STATES}/shop"), "/api/browser/cookies".to_owned()] {
        app.get(&path).bearer(key).send().await.expect_error(403, "insufficient_scope");
    }
    app.get("/api/browser/requests").bearer(key).send().await.expect_status(200);

    for entry in std::fs::read_dir(app.data_dir()).expect("a folder").flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).expect("a file");
        let is_plain = bytes.windows(7).any(|window| window == b"sealed-");
        assert!(!is_plain, "{} contains plain text", entry.path().display());
    }
    assert_eq!(app.delete(&format!("{STATES}/shop")).send().await.expect_status(200).json(), json!({"deleted": true}));
    app.get(&format!("{STATES}/shop")).send().await.expect_error(404, "auth_state_not_found");
}

#[tokio::test]
async fn auth_state_is_saved_from_one_session_and_restored_in_another() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let origin = pages.url("");
    let writes = pages.page("<script>localStorage.who = 'me'; document.cookie = 'signed=in; max-age=999'</script>");
    let shows = pages.page("<script>document.title = document.cookie + JSON.stringify({...localStorage})</script>");
    open(&app, &writes).await;
    let saved = save(&app, json!({"name": "me"})).await.expect_status(201).json();
    assert_eq!((&saved["cookies"], &saved["origins"]), (&json!(1), &json!(1)));
    assert_eq!(get(&app, "/api/browser/tabs").await["total"], 1);
    let read = get(&app, &format!("{STATES}/me")).await;
    assert_eq!(read["origins"], json!([{"origin": origin, "localStorage": [{"name": "who", "value": "me"}]}]));

    app.post("/api/browser/close").send().await.expect_status(200);
    assert_eq!(open(&app, &shows).await["title"], "{}");
    app.post(&format!("{STATES}/me/restore")).send().await.expect_status(200);
    assert_eq!(act(&app, json!({"action": "reload"})).await["title"], "signed=in{\"who\":\"me\"}");
    // A restored state replaces the previous one and is applied before the first page.
    save(&app, json!({"name": "other", "state": playwright_state(&origin)})).await.expect_status(201);
    app.post("/api/browser/close").send().await.expect_status(200);
    app.post(&format!("{STATES}/other/restore")).send().await.expect_status(200);
    assert_eq!(open(&app, &shows).await["title"], "{\"token\":\"sealed-token\"}");
    assert_eq!(get(&app, "/api/browser/cookies").await["cookies"][0]["value"], "sealed-cookie");
}
