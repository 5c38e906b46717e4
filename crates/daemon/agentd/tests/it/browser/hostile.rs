//! Pages that never finish and concurrent clients: documented errors, and a daemon that stays responsive.

use serde_json::json;

use super::{click, get, has_chromium, open, start, try_act};
use crate::support::Eventually;

#[tokio::test]
async fn hostile_pages_do_not_block_other_tabs() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let calm = pages.page("<title>calm</title><button onclick=\"document.title += '.'\">Go</button>");
    let tab = app.post("/api/browser/tabs").json(&json!({"url": calm})).send().await.expect_status(201).json();
    let calm_tab = tab["tab_id"].clone();
    let click_calm_tab = |timeout_ms: u64| {
        let selector = "text=Go";
        json!({"action": "click", "selector": selector, "tab_id": calm_tab, "timeout_ms": timeout_ms})
    };
    let fresh = async || app.post("/api/browser/tabs").send().await.expect_status(201).json()["tab_id"].clone();
    let close = async |tab: &serde_json::Value| {
        let path = format!("/api/browser/tabs/{}", tab.as_str().expect("an id"));
        app.delete(&path).send().await.expect_status(200);
    };

    // An endless script.
    let tab = fresh().await;
    let hangs = pages.page("<script>setTimeout(() => { while (true); })</script><title>hangs</title>");
    let goto =
        |url: &str, tab: &serde_json::Value| json!({"action": "goto", "url": url, "tab_id": tab, "timeout_ms": 3_000});
    try_act(&app, goto(&hangs, &tab)).await;
    let stuck = json!({"action": "click", "selector": "html", "tab_id": tab, "timeout_ms": 500});
    let stuck = try_act(&app, stuck).await;
    assert_eq!(stuck.status, 409, "{}", stuck.text());
    assert_eq!(super::expect_acted(try_act(&app, click_calm_tab(5_000)).await)["ok"], true);
    close(&tab).await;

    // A page that opens dialogs repeatedly.
    let tab = fresh().await;
    let asks = pages.page("<script>setTimeout(() => { for (;;) alert('again') }, 100)</script>");
    try_act(&app, goto(&asks, &tab)).await;
    let mut eventually = Eventually::new();
    loop {
        let probe = json!({"action": "click", "selector": "html", "tab_id": tab, "timeout_ms": 200});
        let answer = try_act(&app, probe).await;
        if answer.status == 409 && answer.json()["code"] == "dialog_open" {
            break;
        }
        eventually.retry_with(&answer.text()).await;
    }
    let answered = json!({"action": "handle_dialog", "accept": true, "tab_id": tab});
    assert_eq!(super::expect_acted(try_act(&app, answered).await)["ok"], true);
    assert_eq!(super::expect_acted(try_act(&app, click_calm_tab(5_000)).await)["ok"], true);
    close(&tab).await;

    // More windows than allowed.
    let tab = fresh().await;
    let opens = pages.page(
        "<title>opens</title>\
         <button onclick='for (let i = 0; i < 200; i++) window.open(\"about:blank\")'>Go</button>",
    );
    open(&app, &opens).await;
    try_act(&app, json!({"action": "click", "selector": "text=Go", "tab_id": tab, "timeout_ms": 5_000})).await;
    assert!(get(&app, "/api/browser/tabs").await["total"].as_u64() <= Some(20));
    assert_eq!(super::expect_acted(try_act(&app, click_calm_tab(20_000)).await)["ok"], true);
    app.post("/api/browser/close").send().await.expect_status(200);

    // Actions of concurrent clients in one tab run one after the other.
    open(&app, &calm).await;
    let clicks: Vec<_> = (0..8).map(|_| click(&app, "text=Go")).collect();
    let done = futures_util::future::join_all(clicks).await;
    let longest = done.iter().filter_map(|done| done["title"].as_str()).max_by_key(|title| title.len());
    assert_eq!(longest, Some("calm........"));
}
