//! Waits for pages and elements, and their errors.

use serde_json::json;

use crate::support::{act, address, click, context, open, page, path, run, title, try_act};

#[test]
fn network_errors_are_sentences() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (url, reason) in [
            (format!("http://{closed}/"), "the server refused the connection"),
            ("http://nothing.invalid/secret?token=1".to_owned(), "the host name could not be resolved"),
            (address("/redirect").await, "too many redirects"),
        ] {
            let error = try_act(&tab, json!({"action": "goto", "url": url})).await.unwrap_err();
            assert_eq!(error.code(), "navigation_failed", "{url}");
            assert!(error.to_string().contains(reason) && !error.to_string().contains("token"), "{error}");
        }
        let error = try_act(&tab, json!({"action": "goto", "url": address("/never").await, "timeout_ms": 1500}))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "timeout", "{error}");
        // An error response with a page is a page.
        assert_eq!(act(&tab, json!({"action": "goto", "url": address("/missing").await})).await.title, "nothing here");
    });
}

#[test]
fn goto_waits_for_the_requested_load_state() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        let url =
            page("<title>early</title><script>onload = () => document.title = 'loaded'</script><img src=/never>").await;
        let early = act(&tab, json!({"action": "goto", "url": url, "wait_until": "domcontentloaded"})).await;
        assert_eq!(early.title, "early");
        let error = try_act(&tab, json!({"action": "goto", "url": url, "timeout_ms": 1500})).await.unwrap_err();
        assert!(error.to_string().contains("the page to load"), "{error}");
        let error = try_act(&tab, json!({"action": "wait_for_network_idle", "timeout_ms": 2000})).await.unwrap_err();
        assert!(error.to_string().contains("the network to become idle"), "{error}");
        let url = page(
            "<script>setTimeout(() => { const s = document.createElement('script'); s.src = '/slow.js'; \
            s.onload = () => document.title = 'late'; document.head.append(s) }, 50)</script>",
        )
        .await;
        let idle = act(&tab, json!({"action": "goto", "url": url, "wait_until": "network_idle"})).await;
        assert_eq!(idle.title, "late");
        let next = path("<title>moved</title>").await;
        let url = page(&format!("<script>location.replace('{next}')</script>")).await;
        act(&tab, json!({"action": "goto", "url": url})).await;
        act(&tab, json!({"action": "wait_for_navigation", "url": next})).await;
        assert_eq!(title(&tab).await, "moved");
    });
}

#[test]
fn wait_for_selector_supports_each_state() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<p id=a>x</p><p id=b hidden>x</p><p id=c>x</p><script>setTimeout(() => {
            a.hidden = true; b.hidden = false; c.remove(); document.body.append(Object.assign(document.createElement('i'), {id: 'd'})) }, 200)</script>"#).await;
        for (selector, state) in
            [("#a", "hidden"), ("#b", "visible"), ("#c", "detached"), ("#d", "attached"), ("#d", "hidden")]
        {
            act(&tab, json!({"action": "wait_for_selector", "selector": selector, "state": state})).await;
        }
        let error = try_act(&tab, json!({"action": "wait_for_selector", "selector": "#c", "timeout_ms": 200}))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "timeout");
        assert!(error.to_string().contains("for `#c` to be visible"), "{error}");
    });
}

#[test]
fn actions_of_a_tab_run_sequentially() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<input id=i oninput='document.title = i.value'>").await;
        let typed = |text: &str| json!({"action": "type_text", "selector": "#i", "text": text});
        let (a, b, c) = (typed("aaaaaaaaaa"), typed("bbbbbbbbbb"), typed("cccccccccc"));
        tokio::join!(act(&tab, a), act(&tab, b), act(&tab, c));
        assert_eq!(title(&tab).await, "aaaaaaaaaabbbbbbbbbbcccccccccc");
    });
}

#[test]
fn action_on_a_busy_page_times_out() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<button onclick='for (;;);'>Hang</button>").await;
        let started = std::time::Instant::now();
        let _ = try_act(&tab, json!({"action": "click", "selector": "text=Hang", "timeout_ms": 500})).await;
        let error =
            try_act(&tab, json!({"action": "click", "selector": "text=Hang", "timeout_ms": 500})).await.unwrap_err();
        assert!(["timeout", "not_actionable"].contains(&error.code()), "{error}");
        assert!(started.elapsed().as_secs() < 30);
        context.close_tab(tab.id()).await.unwrap();
        let other = open(&context, "<button onclick='document.title = 1'>b</button>").await;
        click(&other, "text=b").await;
        assert_eq!(title(&other).await, "1");
    });
}
