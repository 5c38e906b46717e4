//! Storage states: saved from one context, restored in another.

use agentd_browser::{Context, OriginStorage, StorageState, StoredItem};
use serde_json::json;

use crate::support::{act, address, context, page, run};

const PAGE: &str = "<script>document.title = JSON.stringify(Object.entries(localStorage).sort())</script>";

async fn stored(context: &Context, url: &str) -> String {
    let tab = context.open_tab().await.unwrap();
    act(&tab, json!({"action": "goto", "url": url})).await.title
}

#[test]
fn a_state_is_restored_in_another_context() {
    run(async {
        let first = context().await;
        let tab = first.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        let html = "<script>localStorage.setItem('who', 'ä\"'); localStorage.setItem('n', location.hostname)</script>";
        let url = page(html).await;
        for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
            act(&tab, json!({"action": "goto", "url": url})).await;
        }
        let state = first.storage_state().await.unwrap();
        assert_eq!(first.tabs().len(), 1, "a tab of our own is shown");
        assert_eq!(state.origins.len(), 2);
        let text = serde_json::to_value(&state).unwrap();
        assert_eq!(text["cookies"][0]["httpOnly"], true);
        assert!(
            text["origins"][0]["localStorage"].as_array().unwrap().contains(&json!({"name": "who", "value": "ä\""}))
        );
        assert!(!format!("{state:?}").contains("ä"));
        let read: StorageState = serde_json::from_value(text).unwrap();
        assert_eq!(read, state);

        let second = context().await;
        let tab = second.open_tab().await.unwrap();
        let other = page("<script>localStorage.other = 1; document.cookie = 'other=1'</script>").await;
        act(&tab, json!({"action": "goto", "url": other})).await;
        second.restore_storage_state(&read).await.unwrap();
        let shows = page(PAGE).await;
        assert_eq!(stored(&second, &shows).await, "[[\"n\",\"127.0.0.1\"],[\"who\",\"ä\\\"\"]]");
        assert_eq!(
            stored(&second, &shows.replace("127.0.0.1", "localhost")).await,
            "[[\"n\",\"localhost\"],[\"who\",\"ä\\\"\"]]"
        );
        assert_eq!(stored(&second, &address("/echo-cookie").await).await, "kept=yes");
        // An empty one is a fresh browser.
        second.restore_storage_state(&StorageState::default()).await.unwrap();
        assert_eq!(stored(&second, &shows).await, "[]");
        assert_eq!(stored(&second, &address("/echo-cookie").await).await, "none");
    });
}

#[test]
fn what_no_browser_can_have_is_refused_and_changes_nothing() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        let item = |value: String| vec![StoredItem { name: "n".to_owned(), value }];
        let origin =
            |origin: &str, value: String| OriginStorage { origin: origin.to_owned(), local_storage: item(value) };
        for (origin, code) in [
            (origin("file:///etc", String::new()), "invalid_action"),
            (origin("http://a.example/path", String::new()), "invalid_action"),
            (origin("http://a.example", "x".repeat(9 << 20)), "too_much"),
        ] {
            let state = StorageState { cookies: Vec::new(), origins: vec![origin] };
            assert_eq!(context.restore_storage_state(&state).await.unwrap_err().code(), code);
        }
        let bad = json!({"cookies": [{"name": "a;b", "value": "", "domain": "a.example"}]});
        let bad: StorageState = serde_json::from_value(bad).unwrap();
        assert_eq!(context.restore_storage_state(&bad).await.unwrap_err().code(), "invalid_action");
        assert_eq!(context.cookies().await.unwrap().len(), 1);
    });
}
