//! Actions, snapshots, tabs, cookies, and downloads of one session.

use serde_json::json;

use super::{act, click, configure, get, has_chromium, open, start, try_act};
use crate::support::{Eventually, TestApp};

#[tokio::test]
async fn clickable_elements_without_a_role_and_hidden_inputs_can_be_used() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let url = pages.page(
        "<div id=card style='cursor:pointer'>Holiday plan</div><a href='#' id=more>Read&nbsp;more</a>\
         <label><input type=checkbox style='position:absolute;left:-9999px' onchange=\"document.title = this.checked\">Agree\
         </label><script>card.addEventListener('click', () => document.title = 'card');\
         more.onclick = () => { document.title = 'more'; return false; }</script>",
    );
    open(&app, &url).await;
    let snapshot = get(&app, "/api/browser/snapshot").await;
    let expected = "@1 clickable \"Holiday plan\"\n@2 link \"Read more\"\n@3 checkbox \"Agree\"\n";
    assert_eq!((&snapshot["snapshot"], &snapshot["element_count"]), (&json!(expected), &json!(3)));
    assert_eq!(click(&app, "@1").await["title"], "card");
    assert_eq!(click(&app, "role=link[name=\"Read more\"]").await["title"], "more");
    assert_eq!(act(&app, json!({"action": "check", "selector": "@3"})).await["title"], "true");
}

#[tokio::test]
async fn first_action_starts_the_browser_and_invalid_actions_are_reported() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let before = json!({"running": false, "backend": "chromium", "current_url": null, "tabs": 0, "uptime_seconds": 0});
    assert_eq!(get(&app, "/api/browser/status").await, before);
    for path in ["/api/browser/screenshot", "/api/browser/snapshot"] {
        app.get(path).send().await.expect_error(409, "browser_not_running");
    }
    let url = pages.page(
        "<title>start</title><button onclick=\"document.title='clicked'\">Go</button>\
         <p><button class=twin>A</button><button class=twin>B</button><button disabled>Off</button>\
         <label>Name <input id=name></label><a href=/file download>get</a>",
    );
    let opened = open(&app, &url).await;
    assert_eq!((&opened["ok"], &opened["url"], &opened["title"]), (&json!(true), &json!(url), &json!("start")));
    assert!(opened.get("snapshot").is_none() && opened.get("restarted").is_none(), "{opened}");
    assert_eq!(click(&app, "role=button[name=\"Go\"]").await["title"], "clicked");

    let refusals = [
        (json!({"action": "click", "selector": ".twin"}), 409, "ambiguous"),
        (json!({"action": "click", "selector": "text=Off", "timeout_ms": 100}), 409, "not_actionable"),
        (json!({"action": "click", "selector": "@9", "timeout_ms": 100}), 409, "stale_ref"),
        (json!({"action": "click", "selector": "p[", "timeout_ms": 100}), 400, "invalid_action"),
        (json!({"action": "goto", "url": "file:///etc/passwd"}), 400, "invalid_action"),
        (json!({"action": "goto", "url": "chrome://version"}), 400, "invalid_action"),
        (json!({"action": "goto", "url": "x".repeat(1 << 20)}), 400, "invalid_request"),
        (json!({"action": "goto", "url": pages.url("/never"), "timeout_ms": 200}), 409, "timeout"),
        (json!({"action": "click", "selector": "a", "tab_id": "none"}), 404, "tab_not_found"),
        (json!({"action": "reload", "timeout_ms": 60_001}), 400, "invalid_request"),
    ];
    for (action, status, code) in refusals {
        try_act(&app, action).await.expect_error(status, code);
    }
    let unknown = try_act(&app, json!({"action": "dance"})).await.expect_error(400, "invalid_request");
    assert!(unknown.text().contains("drag_and_drop"), "{}", unknown.text());
    let missing =
        try_act(&app, json!({"action": "type_text", "text": null})).await.expect_error(400, "invalid_request");
    assert_eq!(missing.bad_fields(), ["selector", "text"]);
    assert!(missing.text().contains("delay_ms"), "the error lists the known parameters: {}", missing.text());

    open(&app, &url).await;
    let snapshot = get(&app, "/api/browser/snapshot").await;
    let line = snapshot["snapshot"].as_str().and_then(|text| text.lines().find(|line| line.contains("Name")));
    let number = line.and_then(|line| line.split(' ').next()).expect("a number").to_owned();
    let text = "typed ü";
    act(&app, json!({"action": "type_text", "selector": number, "text": text})).await;
    let full = get(&app, "/api/browser/snapshot?full=true").await["snapshot"].to_string();
    assert!(full.contains(text), "{full}");
    let png = app.get("/api/browser/screenshot").send().await.expect_status(200);
    assert_eq!((png.header("content-type"), &png.body[..4]), (Some("image/png"), &b"\x89PNG"[..]));
    let jpeg = json!({"format": "jpeg", "quality": 30, "full_page": true});
    let jpeg = app.post("/api/browser/screenshot").json(&jpeg).send().await.expect_status(200);
    assert_eq!((jpeg.header("content-type"), &jpeg.body[..2]), (Some("image/jpeg"), &b"\xff\xd8"[..]));
    let refused = app.post("/api/browser/screenshot").json(&json!({"format": "gif", "quality": 0})).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["format", "quality"]);

    click(&app, "text=get").await;
    let mut eventually = Eventually::new();
    let download = loop {
        let downloads = get(&app, "/api/browser/downloads").await;
        if downloads["downloads"][0]["state"] == "done" {
            break downloads["downloads"][0].clone();
        }
        eventually.retry_with(&downloads).await;
    };
    let path = "recordings/downloads/report 1.txt";
    assert_eq!((&download["path"], &download["size_bytes"]), (&json!(path), &json!(10)));
    assert_eq!(std::fs::read_to_string(app.data_dir().join(path)).expect("the file"), "the report");

    let status = get(&app, "/api/browser/status").await;
    assert_eq!((&status["running"], &status["current_url"], &status["tabs"]), (&json!(true), &json!(url), &json!(1)));
    let closed = app.post("/api/browser/close").send().await.expect_status(200).json();
    assert_eq!(closed, json!({"closed": true}));
    assert_eq!(get(&app, "/api/browser/status").await, before);
    assert_eq!(get(&app, "/api/browser/downloads").await["total"], 1);
    assert_eq!(app.post("/api/browser/close").send().await.expect_status(200).json(), json!({"closed": false}));
}

#[tokio::test]
async fn tabs_and_cookies_belong_to_the_session() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    assert_eq!(get(&app, "/api/browser/tabs").await, json!({"tabs": [], "total": 0}));
    let shown = json!({"name": "kept", "value": "yes", "domain": "127.0.0.1", "path": "/", "expires": -1.0,
        "httpOnly": true, "secure": false, "sameSite": "Strict"});
    let new = json!({"cookies": [{"name": "kept", "value": "yes", "domain": "127.0.0.1", "httpOnly": true,
        "sameSite": "Strict"}]});
    let set = app.post("/api/browser/cookies").json(&new).send().await.expect_status(200).json();
    assert_eq!(set, json!({"cookies": [shown], "total": 1}));
    assert_eq!(get(&app, "/api/browser/cookies").await, set);
    let refused = json!({"cookies": [{"name": "a", "value": "", "domain": "", "expires": -5}]});
    let refused = app.post("/api/browser/cookies").json(&refused).send().await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["cookies[0].domain", "cookies[0].expires"]);
    app.delete("/api/browser/cookies").send().await.expect_status(200);
    assert_eq!(get(&app, "/api/browser/cookies").await["total"], 0);

    let second = pages.page("<title>second</title>");
    let first = pages.page(&format!("<title>first</title><a target=_blank href='{second}'>more</a>"));
    let one = app.post("/api/browser/tabs").json(&json!({"url": first})).send().await.expect_status(201).json();
    assert_eq!((&one["title"], &one["active"]), (&json!("first"), &json!(true)));
    click(&app, "text=more").await;
    let mut eventually = Eventually::new();
    let popup = loop {
        let tabs = get(&app, "/api/browser/tabs").await;
        let found = tabs["tabs"].as_array().into_iter().flatten().find(|tab| tab["title"] == "second").cloned();
        match found {
            Some(tab) => break tab,
            None => eventually.retry_with(&tabs).await,
        }
    };
    assert_eq!(popup["active"], false);
    let id = popup["tab_id"].as_str().expect("an id");
    let tab = format!("/api/browser/tabs/{id}");
    let activated = app.put(&format!("{tab}/activate")).send().await.expect_status(200).json();
    assert_eq!(activated["active"], true);
    assert_eq!(get(&app, "/api/browser/status").await["current_url"], second);
    let other = format!("/api/browser/snapshot?tab_id={}", one["tab_id"].as_str().expect("an id"));
    assert_eq!(get(&app, &other).await["url"], first);
    app.delete(&tab).send().await.expect_status(200);
    app.delete(&tab).send().await.expect_error(404, "tab_not_found");
    app.put(&format!("{tab}/activate")).send().await.expect_error(404, "tab_not_found");
    let count = get(&app, "/api/browser/tabs").await["total"].clone();
    // A tab that cannot be opened is closed again, and the active tab stays the same.
    let nowhere = json!({"url": "http://10.0.0.1/"});
    app.post("/api/browser/tabs").json(&nowhere).send().await.expect_error(403, "address_refused");
    assert_eq!(get(&app, "/api/browser/tabs").await["total"], count);
    assert_eq!(get(&app, "/api/browser/status").await["current_url"], first);
}

#[tokio::test]
async fn action_returns_a_snapshot_as_configured() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    configure(&app, json!({"auto_snapshot": true, "snapshot_interval_ms": 500})).await.expect_status(200);
    let url = pages.page("<button>Go</button>");
    let opened = open(&app, &url).await;
    assert_eq!(opened["snapshot"], "@1 button \"Go\"\n");
    assert!(click(&app, "@1").await.get("snapshot").is_none());
    app.clock.advance(std::time::Duration::from_millis(500));
    assert_eq!(click(&app, "@1").await["snapshot"], "@1 button \"Go\" (focused)\n");
}

#[tokio::test]
async fn browser_settings_are_available_at_two_paths() {
    let app = TestApp::with_owner().await;
    let defaults = json!({"backend": "chromium", "headless": true, "auto_snapshot": false, "snapshot_interval_ms": 1000,
        "stream_fps": 1, "stream_quality": 60, "ssrf_allowlist": [], "ssrf_blocklist": []});
    for path in ["/api/browser/config", "/api/settings/browser"] {
        assert_eq!(get(&app, path).await, defaults);
    }
    assert_eq!(get(&app, "/api/settings").await["browser"], defaults);
    let bad = json!({"backend": "firefox", "stream_fps": 3, "stream_quality": 0, "snapshot_interval_ms": 99,
        "ssrf_allowlist": ["http://x"], "ssrf_blocklist": ["*"], "headles": false});
    let mut fields = configure(&app, bad).await.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    let expected = [
        "backend",
        "headles",
        "snapshot_interval_ms",
        "ssrf_allowlist[0]",
        "ssrf_blocklist[0]",
        "stream_fps",
        "stream_quality",
    ];
    assert_eq!(fields, expected);
    let change = json!({"stream_fps": 2, "ssrf_blocklist": ["Example.COM."]});
    let changed = app.put("/api/settings/browser").json(&change).send().await.expect_status(200).json();
    assert_eq!((&changed["stream_fps"], &changed["ssrf_blocklist"]), (&json!(2), &json!(["example.com"])));
    assert_eq!(get(&app, "/api/browser/config").await, changed);
    app.post("/api/settings/reset").send().await.expect_status(200);
    assert_eq!(get(&app, "/api/browser/config").await, defaults);
}
