//! Addresses that pages may reach.

use serde_json::{Value, json};

use super::{act, configure, has_chromium, open, try_act};
use crate::browser::Pages;
use crate::support::TestApp;

/// Opens a page that fetches `url`, and returns the result once the network is idle.
async fn fetch_from_page(app: &TestApp, pages: &Pages, url: &str) -> Value {
    let script = format!(
        "<script>fetch('{url}', {{mode: 'no-cors'}}).then(a => a.text(), e => e).then(_ => document.title = 'done')\
         </script>"
    );
    open(app, &pages.page(&script).replace("127.0.0.1", "localhost")).await;
    act(app, json!({"action": "wait_for_network_idle"})).await
}

#[tokio::test]
async fn address_lists_and_security_settings_apply_immediately() {
    if !has_chromium() {
        return;
    }
    let app = TestApp::with_owner().await;
    let pages = Pages::serve().await;
    let url = pages.page("<title>local</title>");
    let goto = |url: &str| json!({"action": "goto", "url": url});
    let port = pages.port();
    for refused in [
        url.as_str(),
        &format!("http://localhost:{port}/0"),
        &format!("http://[::1]:{port}/0"),
        &format!("http://0.0.0.0:{port}/0"),
        &format!("http://2130706433:{port}/0"),
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "https://localhost/",
    ] {
        try_act(&app, goto(refused)).await.expect_error(403, "address_refused");
    }
    assert!(pages.requested_paths().is_empty(), "{:?}", pages.requested_paths());

    // Allowing a name does not allow the address to which it resolves.
    let named = url.replace("127.0.0.1", "localhost");
    configure(&app, json!({"ssrf_allowlist": ["localhost"]})).await.expect_status(200);
    assert_eq!(open(&app, &named).await["title"], "local");
    // Requests of the page are checked by the same rules.
    let other = Pages::serve().await;
    let canary = format!("http://127.0.0.1:{}/canary", other.port());
    fetch_from_page(&app, &pages, &canary).await;
    assert!(other.requested_paths().is_empty(), "{:?}", other.requested_paths());
    configure(&app, json!({"ssrf_allowlist": ["127.0.0.1", "localhost"]})).await.expect_status(200);
    fetch_from_page(&app, &pages, &canary).await;
    assert_eq!(other.requested_paths(), ["/canary"]);

    // Blocklists take precedence, those of the browser as well as those of the security settings.
    configure(&app, json!({"ssrf_blocklist": ["127.0.0.0/8"]})).await.expect_status(200);
    try_act(&app, goto(&url)).await.expect_error(403, "address_refused");
    configure(&app, json!({"ssrf_allowlist": [], "ssrf_blocklist": []})).await.expect_status(200);
    let security = json!({"allowed_hosts": ["127.0.0.1"]});
    app.put("/api/settings/security").json(&security).send().await.expect_status(200);
    assert_eq!(open(&app, &url).await["title"], "local");
    let security = json!({"blocked_hosts": ["127.0.0.1"]});
    app.put("/api/settings/security").json(&security).send().await.expect_status(200);
    try_act(&app, goto(&url)).await.expect_error(403, "address_refused");
}

#[tokio::test]
async fn navigation_that_ends_at_a_refused_address_is_an_error() {
    if !has_chromium() {
        return;
    }
    // Only the name `localhost` is allowed, and no other name of this machine.
    let app = TestApp::with_owner().await;
    configure(&app, json!({"ssrf_allowlist": ["localhost"]})).await.expect_status(200);
    let (pages, other) = (Pages::serve().await, Pages::serve().await);
    // Replaces only the host of the page, not that of the target.
    let named = |url: String| url.replacen("127.0.0.1", "localhost", 1);
    let name = hostname();
    let goto = |url: &str| json!({"action": "goto", "url": url});
    let mut failures = Vec::new();
    for target in [
        format!("http://127.0.0.1:{}/canary", other.port()),
        format!("https://[::1]:{}/canary", other.port()),
        format!("http://{name}:{}/canary", other.port()),
        format!("https://{name}:{}/canary", other.port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://10.0.0.1/".to_owned(),
    ] {
        for (way, url) in [
            ("direct", target.clone()),
            ("redirect", named(pages.redirect(&target))),
            ("two redirects", named(pages.redirect(&named(pages.redirect("TARGET"))).replace("TARGET", &target))),
            ("refresh", named(pages.page(&format!("<meta http-equiv=refresh content='0;url={target}'>")))),
            ("script", named(pages.page(&format!("<script>location.replace('{target}')</script>")))),
        ] {
            let answer = try_act(&app, goto(&url)).await;
            if answer.status != 403 || answer.json()["code"] != "address_refused" {
                failures.push(format!("goto {target} by {way}: {} {}", answer.status, answer.text()));
            }
            let answer = app.post("/api/browser/tabs").json(&json!({"url": url})).send().await;
            if answer.status != 403 || answer.json()["code"] != "address_refused" {
                failures.push(format!("tabs {target} by {way}: {} {}", answer.status, answer.text()));
            }
        }
        let page = named(pages.page(&format!(
            "<a href='{target}'>link</a><form action='{target}' method=post><button>send</button></form>\
             <button onclick=\"location.href='{target}'\">jump</button>"
        )));
        for text in ["link", "send", "jump"] {
            open(&app, &page).await;
            let answer = try_act(&app, json!({"action": "click", "selector": format!("text={text}")})).await;
            if answer.status != 403 || answer.json()["code"] != "address_refused" {
                failures.push(format!("click {text} to {target}: {} {}", answer.status, answer.text()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(other.requested_paths().is_empty(), "{:?}", other.requested_paths());
    assert_eq!(super::get(&app, "/api/browser/tabs").await["total"], 1, "no refused tab stays open");
}

#[tokio::test]
async fn navigation_to_a_name_that_does_not_resolve_fails() {
    if !has_chromium() {
        return;
    }
    let app = TestApp::with_owner().await;
    for url in ["http://no-such-host.invalid/secret", "https://no-such-host.invalid/secret"] {
        let failed = try_act(&app, json!({"action": "goto", "url": url})).await;
        let text = failed.text();
        assert!(text.contains("could not be resolved") && !text.contains("secret"), "{text}");
        failed.expect_error(502, "navigation_failed");
    }
}

#[tokio::test]
async fn browser_shortcuts_open_no_page_of_chromium() {
    if !has_chromium() {
        return;
    }
    let app = TestApp::with_owner().await;
    try_act(&app, json!({"action": "goto", "url": "data:text/html,<title>page</title>"})).await.expect_status(200);
    for key in ["Control+Shift+O", "Control+J", "Control+T", "Control+U", "F1", "Control+Shift+W"] {
        try_act(&app, json!({"action": "press_key", "key": key})).await.expect_error(400, "invalid_action");
    }
    assert_eq!(super::get(&app, "/api/browser/tabs").await["total"], 1);
}

/// Returns the name of this machine, which resolves to an address that is not public.
fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name").trim().to_owned()
}
