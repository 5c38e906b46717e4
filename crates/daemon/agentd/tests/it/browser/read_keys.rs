//! Browser data visible to read-only keys.

use serde_json::{Value, json};

use super::{act, get, has_chromium, open, start};
use crate::support::TestApp;

const TOKEN: &str = "token-of-the-url";

async fn reader(app: &TestApp) -> String {
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await;
    key.expect_status(200).json()["key"].as_str().expect("a key").to_owned()
}

async fn read(app: &TestApp, path: &str, key: &str) -> Value {
    app.get(path).bearer(key).send().await.expect_status(200).json()
}

#[tokio::test]
async fn read_key_sees_only_scheme_and_host_of_urls() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let reader = reader(&app).await;
    let server = pages.url("");
    let with_token = |path: &str| pages.url(&format!("{path}?token={TOKEN}"));
    app.post("/api/browser/recording/start").json(&json!({"name": "r"})).send().await.expect_status(200);
    let url = pages.page(&format!(
        "<title>shop</title><a id=file href='/file?token={TOKEN}' download>get</a>\
         <a href='/{TOKEN}/x' onclick='return false'>plain</a><iframe src='/{TOKEN}?token={TOKEN}'></iframe>"
    ));
    open(&app, &format!("{url}?token={TOKEN}#{TOKEN}")).await;
    act(&app, json!({"action": "click", "selector": format!("a[href=\"/{TOKEN}/x\"]")})).await;
    act(&app, json!({"action": "click", "selector": "#file"})).await;
    app.post("/api/browser/recording/stop").send().await.expect_status(200);
    let mock = json!({"url_pattern": with_token("/api/*"), "body": TOKEN, "headers": {"x-session": TOKEN}});
    app.post("/api/browser/mock").json(&mock).send().await.expect_status(201);
    let recordings = get(&app, "/api/browser/recordings").await;
    let recording =
        format!("/api/browser/recordings/{}", recordings["recordings"][0]["recording_id"].as_str().unwrap());

    let paths = [
        "/api/browser/status",
        "/api/browser/tabs",
        "/api/browser/requests",
        "/api/browser/snapshot",
        "/api/browser/downloads",
        "/api/browser/mock",
        &recording,
    ];
    for path in paths {
        let full = get(&app, path).await.to_string();
        assert!(full.contains(TOKEN) || path == recording, "{path} shows the token to the owner: {full}");
        let shown = read(&app, path, &reader).await.to_string();
        assert!(!shown.contains(TOKEN), "{path}: {shown}");
        assert!(shown.contains(&server), "{path}: {shown}");
    }
    assert_eq!(read(&app, "/api/browser/status", &reader).await["current_url"], server);
    assert_eq!(read(&app, "/api/browser/tabs", &reader).await["tabs"][0]["url"], server);
}

#[tokio::test]
async fn read_key_filters_requests_by_the_visible_part_of_urls() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let reader = reader(&app).await;
    open(&app, &format!("{}?token={TOKEN}", pages.page("<title>shop</title>"))).await;
    let count = async |filter: &str, key: Option<&str>| {
        let request = app.get(&format!("/api/browser/requests?url={filter}"));
        let request = match key {
            Some(key) => request.bearer(key),
            None => request,
        };
        request.send().await.expect_status(200).json()["total"].clone()
    };
    for guess in [TOKEN, "token%3Dt", "**%3Ftoken%3D*"] {
        assert_ne!(count(guess, None).await, 0, "{guess}");
        assert_eq!(count(guess, Some(&reader)).await, 0, "{guess}");
    }
    assert_ne!(count("127.0.0.1", Some(&reader)).await, 0);
    assert_ne!(count("http://127.*", Some(&reader)).await, 0);
}
