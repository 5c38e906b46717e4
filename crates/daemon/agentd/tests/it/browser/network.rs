//! Requests of pages, mocks, device emulation, and profiles.

use agentd_json_schema::Schema;
use serde_json::{Value, json};

use super::{act, get, has_chromium, open, start};
use crate::support::{TestApp, TestResponse};

const SOCKET_PAGE: &str = "<script>const socket = new WebSocket(`ws://${location.host}/echo`);
    socket.onopen = () => socket.send('hello'); socket.onmessage = () => document.documentElement.id = 'heard'</script>";
/// Fetches `/mocked` and shows the result in the title.
const FETCH_PAGE: &str = "<script>fetch('/mocked').then(a => a.text()).then(t => document.title = 'got ' + t)</script>";

async fn post(app: &TestApp, path: &str, body: Value) -> TestResponse {
    app.post(path).json(&body).send().await
}

async fn title_after(app: &TestApp, url: &str) -> Value {
    act(app, json!({"action": "goto", "url": url, "wait_until": "network_idle"})).await["title"].clone()
}

#[tokio::test]
async fn requests_are_listed_recorded_and_mocked() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    // Without a session there are no requests; recording and mocks can be prepared for the next one.
    assert_eq!(get(&app, "/api/browser/requests").await, json!({"requests": [], "total": 0}));
    app.post("/api/browser/har/stop").send().await.expect_error(409, "har_not_running");
    assert_eq!(app.post("/api/browser/har/start").send().await.expect_status(200).json(), json!({"recording": true}));
    app.post("/api/browser/har/start").send().await.expect_error(409, "har_running");
    let mock = json!({"url_pattern": "**/mocked", "status_code": 203, "body": "ours", "headers": {"x-own": "1"}});
    assert_eq!(post(&app, "/api/browser/mock", mock.clone()).await.expect_status(201).json(), mock);
    assert_eq!(get(&app, "/api/browser/mock").await, json!({"mocks": [mock], "total": 1}));
    assert_eq!(get(&app, "/api/browser/status").await["running"], false);

    let url = pages.page(FETCH_PAGE);
    assert_eq!(title_after(&app, &url).await, "got ours");
    assert!(!pages.requested_paths().contains(&"/mocked".to_owned()));
    let all = get(&app, "/api/browser/requests").await;
    assert_eq!(all["requests"][0]["url"], json!(url), "{all:#}");
    assert_eq!(all["requests"][0]["resource_type"], "document");
    let some = get(&app, "/api/browser/requests?url=**/mocked&status=203&type=fetch").await;
    assert_eq!((&some["total"], &some["requests"][0]["mocked"]), (&json!(1), &json!(true)), "{all:#}");
    assert_eq!(get(&app, "/api/browser/requests?url=mocked&status=200").await["total"], 0);
    // A request blocked by the firewall is listed as failed.
    open(&app, &pages.page("<img src=http://10.0.0.1/private.png><img src=/a.png><form></form>")).await;
    act(&app, json!({"action": "wait_for_network_idle"})).await;
    let private = get(&app, "/api/browser/requests?url=10.0.0.1").await;
    assert_eq!(private["total"], 1, "{private:#}");

    open(&app, &pages.page(SOCKET_PAGE)).await;
    act(&app, json!({"action": "wait_for_selector", "selector": "#heard", "state": "attached"})).await;

    let har = app.post("/api/browser/har/stop").send().await.expect_status(200).json();
    let schema = serde_json::from_str(include_str!("../../data/har-1.2.schema.json")).expect("JSON");
    let problems = Schema::trusted(schema).validate(&har, 10_000_000);
    assert!(problems.is_ok(), "{problems:?} {har:#}");
    let entries = har["log"]["entries"].as_array().expect("entries");
    let entry_of = |part: &str| {
        let found = entries.iter().find(|entry| entry["request"]["url"].as_str().is_some_and(|url| url.contains(part)));
        found.unwrap_or_else(|| panic!("{part} is not in {har:#}"))
    };
    assert_eq!(
        (&entry_of("/mocked")["response"]["content"]["text"], &entry_of("/mocked")["_mocked"]),
        (&json!("ours"), &json!(true))
    );
    let messages = entry_of("/echo")["_webSocketMessages"].as_array().expect("messages");
    let frames: Vec<_> = messages.iter().map(|one| (&one["type"], &one["data"], &one["opcode"])).collect();
    let hello = &json!("hello");
    assert_eq!(frames, [(&json!("send"), hello, &json!(1)), (&json!("receive"), hello, &json!(1))]);
    assert!(entry_of(&url)["response"]["content"]["text"].as_str().is_some_and(|text| text.contains("fetch(")));
    app.post("/api/browser/har/stop").send().await.expect_error(409, "har_not_running");

    let removal = json!({"url_pattern": "**/other"});
    let removed = app.delete("/api/browser/mock").json(&removal).send().await.expect_status(200).json();
    assert_eq!(removed, json!({"removed": 0}));
    assert_eq!(app.delete("/api/browser/mock").send().await.expect_status(200).json(), json!({"removed": 1}));
    assert!(title_after(&app, &url).await.as_str().is_some_and(|title| title.contains("nothing here")));
    post(&app, "/api/browser/mock", json!({"url_pattern": "**"})).await.expect_status(201);
    app.post("/api/browser/close").send().await.expect_status(200);
    assert_eq!(get(&app, "/api/browser/mock").await["total"], 0, "mocks belong to their session");
}

#[tokio::test]
async fn emulation_and_profile_apply_to_the_session() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let shows = pages.page(
        "<meta name=viewport content='width=device-width'><script>document.title = [innerWidth, navigator.userAgent.includes('Android'), navigator.language,
            Intl.DateTimeFormat().resolvedOptions().timeZone, matchMedia('(prefers-color-scheme: dark)').matches]
            .join(' ')</script>",
    );
    let plain = title_after(&app, &shows).await;
    let pixel = post(&app, "/api/browser/emulation", json!({"preset": "pixel"})).await.expect_status(200).json();
    assert_eq!((&pixel["preset"], &pixel["viewport"]["width"]), (&json!("pixel"), &json!(412)));
    assert!(pixel["user_agent"].as_str().is_some_and(|text| text.contains("Chrome/1")), "{pixel}");
    let profile = json!({"locale": "de-CH", "timezone": "Asia/Tokyo", "color_scheme": "dark",
        "extra_headers": {"X-Token": "secret-value"}, "geolocation": {"latitude": 1.5, "longitude": 2}});
    let shown = post(&app, "/api/browser/profile", profile).await.expect_status(200);
    assert!(!shown.text().contains("secret-value"), "{}", shown.text());
    let shown = shown.json();
    assert_eq!(
        (&shown["extra_headers"], &shown["geolocation"]["accuracy"]),
        (&json!({"X-Token": {"set": true}}), &json!(10.0))
    );
    assert_eq!(title_after(&app, &shows).await, "412 true de-CH Asia/Tokyo true");
    let headers = pages.headers(&shows);
    assert_eq!((&*headers["x-token"], &*headers["accept-language"]), ("secret-value", "de-CH,de;q=0.9"));
    // A partial change, applied in a new tab.
    let change = json!({"timezone": null, "color_scheme": "light", "extra_headers": {"X-Token": {"set": true}}});
    post(&app, "/api/browser/profile", change).await.expect_status(200);
    post(&app, "/api/browser/tabs", json!({})).await.expect_status(201);
    assert!(title_after(&app, &shows).await.as_str().is_some_and(|title| title.ends_with("false")));
    assert_eq!(&*pages.headers(&shows)["x-token"], "secret-value");

    let refusals: [(&str, Value, &[&str]); 13] = [
        ("emulation", json!({}), &["viewport"]),
        ("emulation", json!({"preset": "toaster"}), &["preset"]),
        ("emulation", json!({"preset": "ipad", "is_mobile": true}), &["preset"]),
        ("emulation", json!({"viewport": {"width": 0, "height": 5_000}}), &["viewport.height", "viewport.width"]),
        (
            "emulation",
            json!({"viewport": {"width": 4_096, "height": 99}, "device_scale_factor": 4}),
            &["device_scale_factor"],
        ),
        ("emulation", json!({"viewport": {"width": 100, "height": 100}, "user_agent": "a\nb"}), &["user_agent"]),
        ("profile", json!({"timezone": "Mars/Olympus", "locale": "x"}), &["locale"]),
        ("profile", json!({"timezone": "Mars/Olympus", "locale": "xxxx_x"}), &["locale", "timezone"]),
        ("profile", json!({"geolocation": {"latitude": 91, "longitude": 0}}), &["geolocation.latitude"]),
        ("profile", json!({"extra_headers": {"Host": "a"}}), &["extra_headers"]),
        ("profile", json!({"extra_headers": {"X-A": "b\r\nX-B: c"}}), &["extra_headers"]),
        ("mock", json!({"url_pattern": "api", "headers": {"a b": ""}}), &["headers", "url_pattern"]),
        ("mock", json!({"url_pattern": "x".repeat(1 << 20), "status_code": 99}), &["status_code", "url_pattern"]),
    ];
    for (path, body, fields) in refusals {
        let refused = post(&app, &format!("/api/browser/{path}"), body.clone()).await;
        let mut found = refused.expect_error(400, "invalid_request").bad_fields();
        found.sort();
        assert_eq!(found, fields, "{body}");
    }
    post(&app, "/api/browser/emulation", json!({"preset": "reset"})).await.expect_status(200);
    let undone = json!({"locale": null, "color_scheme": null, "extra_headers": null, "geolocation": null});
    post(&app, "/api/browser/profile", undone).await.expect_status(200);
    assert_eq!(title_after(&app, &shows).await, plain);
    // The emulation ends with the session.
    post(&app, "/api/browser/emulation", json!({"viewport": {"width": 333, "height": 444}})).await.expect_status(200);
    assert!(title_after(&app, &shows).await.as_str().is_some_and(|title| title.starts_with("333 ")));
    app.post("/api/browser/close").send().await.expect_status(200);
    assert_eq!(title_after(&app, &shows).await, plain);
}
