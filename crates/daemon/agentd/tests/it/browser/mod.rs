//! `/api/browser`: a real Chromium on pages served by the test.

mod acting;
mod auth_states;
mod ending;
mod hostile;
mod network;
pub mod pages;
mod reaching;
mod read_keys;
mod recording;
mod seeing;
mod tools;

use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse};
pub use pages::Pages;

/// Whether Chromium is installed; prints a message if it is not.
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
pub fn has_chromium() -> bool {
    let is_installed = std::path::Path::new("/usr/bin/chromium").exists();
    if !is_installed {
        assert!(
            std::env::var_os("AGENTD_REQUIRE_CHROMIUM").is_none(),
            "Chromium is not installed; run `make chromium`"
        );
        eprintln!("SKIPPED: Chromium is not installed; run `make chromium`");
    }
    is_installed
}

/// Starts a daemon whose browser may reach the pages of the test.
pub async fn start() -> (TestApp, Pages) {
    let app = TestApp::with_owner().await;
    configure(&app, json!({"ssrf_allowlist": ["127.0.0.1"]})).await.expect_status(200);
    (app, Pages::serve().await)
}

pub async fn configure(app: &TestApp, change: Value) -> TestResponse {
    app.put("/api/browser/config").json(&change).send().await
}

pub async fn try_act(app: &TestApp, action: Value) -> TestResponse {
    app.post("/api/browser/action").json(&action).send().await
}

#[track_caller]
pub fn expect_acted(answer: TestResponse) -> Value {
    answer.expect_status(200).json()
}

pub async fn act(app: &TestApp, action: Value) -> Value {
    expect_acted(try_act(app, action).await)
}

pub async fn open(app: &TestApp, url: &str) -> Value {
    act(app, json!({"action": "goto", "url": url})).await
}

pub async fn click(app: &TestApp, selector: &str) -> Value {
    act(app, json!({"action": "click", "selector": selector})).await
}

pub async fn get(app: &TestApp, path: &str) -> Value {
    app.get(path).send().await.expect_status(200).json()
}
