//! HTTP tools: placeholders, secrets, and allowed destinations.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::{CUSTOM, Server, app, call};
use crate::support::TestApp;

async fn create(app: &TestApp, request: Value) -> String {
    let fields = json!({"name": "api", "description": "For tests.", "kind": "http", "request": request});
    let made = app.post(CUSTOM).json(&fields).send().await.expect_status(201).json();
    format!("{CUSTOM}/{}", made["id"].as_str().unwrap())
}

#[tokio::test]
async fn request_is_filled_and_secrets_stay_hidden() {
    let app = app().await;
    let server = Server::start(|received| match received.uri.path() {
        "/v1/plain" => "just text".into_response(),
        _ => axum::Json(json!({"ok": true})).into_response(),
    })
    .await;
    let request = json!({
        "method": "POST",
        "url": server.url("/v1/{{input.item}}?q={{input.q}}"),
        "headers": {"X-Trace": "t-{{input.item}}"},
        "secret_headers": {"Authorization": "Bearer hunter2", "x-other": "also-hidden"},
        "body": "{\"q\": \"{{input.q}}\", \"n\": {{input.n}}}",
    });
    let path = create(&app, request).await;
    let answer = call(&app, "api", json!({"item": "a b/..", "q": "x\"&y=1", "n": 5})).await.unwrap();
    assert_eq!(answer, json!({"status": 200, "content_type": "application/json", "body": {"ok": true}}));
    let received = server.requests().pop().unwrap();
    assert_eq!(received.method, "POST");
    assert_eq!(received.uri.to_string(), "/v1/a%20b%2F..?q=x%22%26y%3D1");
    assert_eq!(serde_json::from_str::<Value>(&received.body).unwrap(), json!({"q": "x\"&y=1", "n": 5}));
    assert_eq!(
        (received.headers["authorization"].as_str(), received.headers["x-trace"].as_str()),
        ("Bearer hunter2", "t-a b/..")
    );
    assert_eq!(received.headers["content-type"], "application/json");
    assert!(call(&app, "api", json!({"item": "..", "q": "", "n": 1})).await.unwrap_err().to_string().contains("`..`"));

    let shown = app.get(&path).send().await.expect_status(200);
    assert_eq!(
        shown.json()["request"]["secret_headers"],
        json!({"authorization": {"set": true}, "x-other": {"set": true}})
    );
    for text in [shown.text(), app.get(CUSTOM).send().await.text(), app.get("/api/settings/export").send().await.text()]
    {
        assert!(!text.contains("hunter2") && !text.contains("also-hidden"));
    }

    // `{"set": true}` and omitted headers are kept, null clears, and a string replaces.
    let change = json!({"request": {"method": "GET", "url": server.url("/v1/plain"),
        "secret_headers": {"Authorization": {"set": true}, "X-Other": null, "x-third": "new"}}});
    let changed = app.put(&path).json(&change).send().await.expect_status(200).json();
    assert_eq!(changed["request"]["secret_headers"], json!({"authorization": {"set": true}, "x-third": {"set": true}}));
    assert_eq!(call(&app, "api", json!({})).await.unwrap()["body"], "just text");
    let received = server.requests().pop().unwrap();
    assert_eq!(
        (received.headers["authorization"].as_str(), received.headers["x-third"].as_str()),
        ("Bearer hunter2", "new")
    );
    assert!(!received.headers.contains_key("x-other") && received.body.is_empty());

    let python = json!({"kind": "python", "source_code": "result = 1"});
    assert_eq!(app.put(&path).json(&python).send().await.expect_status(200).json()["request"], Value::Null);
    let plain = json!({"kind": "http", "request": {"url": server.url("/")}});
    let made = app.put(&path).json(&plain).send().await.expect_status(200).json();
    assert_eq!(made["request"]["method"], "GET", "the method defaults to GET");
    app.put(&path).json(&python).send().await.expect_status(200);
    let back = json!({"kind": "http", "request": {"method": "GET", "url": server.url("/"), "secret_headers": {"authorization": {"set": true}}}});
    let refused = app.put(&path).json(&back).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["request.secret_headers.authorization"]);
}

#[tokio::test]
async fn secrets_do_not_follow_to_another_host() {
    let app = app().await;
    let secrets = json!({"authorization": "Bearer hunter2", "x-other": "also-hidden"});
    let path = create(&app, json!({"url": "https://one.example/a", "secret_headers": secrets})).await;
    let change = |url: &str, secrets: Value| json!({"request": {"url": url, "secret_headers": secrets}});
    let shown = json!({"authorization": {"set": true}, "x-other": null});
    for url in ["https://two.example/a", "http://one.example/a", "https://one.example:8443/a"] {
        let refused = app.put(&path).json(&change(url, shown.clone())).send().await;
        let refused = refused.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["request.secret_headers.authorization"], "{url}");
        assert!(refused.text().contains("entered again"), "{}", refused.text());
    }
    app.put(&path).json(&change("https://one.example/b/{{input.item}}", json!({}))).send().await.expect_status(200);
    let again = json!({"Authorization": "Bearer hunter3", "x-other": null});
    let moved = app.put(&path).json(&change("https://two.example/a", again)).send().await.expect_status(200).json();
    assert_eq!(moved["request"]["secret_headers"], json!({"authorization": {"set": true}}));
}

#[tokio::test]
async fn host_chosen_by_the_model_follows_the_rules_for_agents() {
    let app = app().await;
    let server = Server::start(|_| "inside".into_response()).await;
    let port = server.address.port();
    let path = create(&app, json!({"method": "GET", "url": format!("http://{{{{input.host}}}}:{port}/")})).await;
    let refused = call(&app, "api", json!({"host": "127.0.0.1"})).await.unwrap_err();
    assert!(server.requests().is_empty(), "{refused}");
    for host in ["evil.example/", "127.0.0.1/x?", "a@127.0.0.1", "127.0.0.1#"] {
        call(&app, "api", json!({"host": host})).await.expect_err(host);
    }
    assert!(server.requests().is_empty());
    app.put("/api/settings/security").json(&json!({"allowed_hosts": ["127.0.0.1"]})).send().await.expect_status(200);
    assert_eq!(call(&app, "api", json!({"host": "127.0.0.1"})).await.unwrap()["body"], "inside");

    let with_secret = json!({"request": {"method": "GET", "url": "https://{{input.host}}/", "secret_headers": {"authorization": "x"}}});
    let refused = app.put(&path).json(&with_secret).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["request.secret_headers"]);
}

#[tokio::test]
async fn trusted_request_follows_no_redirect() {
    let app = app().await;
    let inner = Server::start(|_| "inside".into_response()).await;
    let target = inner.url("/");
    let outer = Server::start(move |received| match received.uri.path() {
        "/bad" => (StatusCode::BAD_GATEWAY, "broken").into_response(),
        _ => (StatusCode::FOUND, [("location", target.clone())]).into_response(),
    })
    .await;
    let path =
        create(&app, json!({"method": "GET", "url": outer.url("/"), "secret_headers": {"authorization": "s"}})).await;
    let refused = call(&app, "api", json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("redirect") && inner.requests().is_empty(), "{refused}");
    let change = json!({"request": {"method": "GET", "url": outer.url("/bad")}});
    app.put(&path).json(&change).send().await.expect_status(200);
    let answer = call(&app, "api", json!({})).await.unwrap();
    assert_eq!((&answer["status"], &answer["body"]), (&json!(502), &json!("broken")));
}
