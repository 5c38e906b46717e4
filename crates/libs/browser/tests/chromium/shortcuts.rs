//! Keys reach the page and never Chromium itself.

use serde_json::json;

use crate::support::{act, context, expect_title, open, run, try_act};

/// Page that writes each received key into its title.
const KEYS: &str = "<title>keys:</title><input id=i autofocus><script>\
    onkeydown = e => { if (!['Control', 'Shift', 'Alt'].includes(e.key)) document.title += ' ' + e.key }</script>";

#[test]
fn shortcuts_of_the_browser_are_refused() {
    run(async {
        let context = context().await;
        let tab = open(&context, KEYS).await;
        for key in ["Control+Shift+O", "Control+J", "Control+T", "Control+U", "F1", "Control+Shift+W", "Alt+Home"] {
            let error = try_act(&tab, json!({"action": "press_key", "key": key})).await.unwrap_err();
            assert_eq!(error.code(), "invalid_action", "{key}");
            assert!(error.to_string().contains(key), "{error}");
        }
        expect_title(&tab, "keys:").await;
        assert_eq!(context.tabs().len(), 1);
    });
}

#[test]
fn shortcuts_of_pages_reach_the_page_alone() {
    run(async {
        let context = context().await;
        let tab = open(&context, KEYS).await;
        let url = tab.info().url;
        let keys = ["Control+S", "Control+Enter", "Control+K", "Control+F", "Control+R", "Control+0", "Alt+ArrowLeft"];
        for key in keys {
            act(&tab, json!({"action": "press_key", "key": key})).await;
        }
        expect_title(&tab, "keys: s Enter k f r 0 ArrowLeft").await;
        assert_eq!((context.tabs().len(), tab.info().url), (1, url));
        assert!(context.downloads().iter().all(|download| download.url != tab.info().url), "nothing was saved");
    });
}

#[test]
fn editing_keys_work_with_control() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<title>t</title><input id=i value='one two'>").await;
        for key in ["Control+a", "Control+c", "End", "Control+v", "Control+Backspace", "Control+z", "Control+Shift+Z"] {
            act(&tab, json!({"action": "press_key", "selector": "#i", "key": key})).await;
        }
        let html = tab.snapshot(true).await.unwrap().snapshot;
        assert!(html.contains(r#"value "one twoone""#), "{html}");
    });
}
