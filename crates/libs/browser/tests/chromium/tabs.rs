//! Tabs, popups, dialogs, crashes and cookies.

use std::time::Duration;

use agentd_browser::{BrowserLimits, BrowserOptions, Cookie, DialogAnswer, SameSite};
use serde_json::json;

use crate::support::{
    SOON, act, address, click, context, eventually, new_browser, open, options, page, path, run, title, try_act,
};

#[test]
fn popups_and_links_to_new_windows_become_tabs() {
    run(async {
        let context = context().await;
        let next = path("<title>popup</title><button onclick=\"document.title = 'used'\">Use</button>").await;
        let tab = open(
            &context,
            &format!("<a target=_blank href={next}>Blank</a><button onclick=\"window.open('{next}')\">Open</button>"),
        )
        .await;
        for selector in ["text=Blank", "text=Open"] {
            let before = context.tabs().len();
            click(&tab, selector).await;
            let known: Vec<_> = context.tabs().into_iter().take(before).collect();
            let popup = context
                .wait_for_tab(SOON, |info| {
                    known.iter().all(|known| known.tab_id != info.tab_id) && info.url.ends_with(&next)
                })
                .await
                .unwrap();
            click(&popup, "text=Use").await;
            assert_eq!(title(&popup).await, "used");
            // The tab in the background still works.
            act(&tab, json!({"action": "hover", "selector": selector})).await;
        }
        let tabs = context.tabs();
        assert_eq!(tabs.len(), 3);
        context.close_tab(&tabs[1].tab_id).await.unwrap();
        assert_eq!(context.tabs().len(), 2);
        assert_eq!(context.close_tab(&tabs[1].tab_id).await.unwrap_err().code(), "tab_not_found");
        let error = try_act(&tab, json!({"action": "goto", "url": "file:///etc/passwd"})).await.unwrap_err();
        assert_eq!(error.code(), "invalid_action");
    });
}

#[test]
fn action_that_closes_its_window_succeeds() {
    run(async {
        let context = context().await;
        let next = path("<button onclick='window.close()'>Done</button><input onkeydown='window.close()'>").await;
        let tab = open(&context, &format!("<button onclick=\"window.open('{next}')\">Open</button>")).await;
        for action in [
            json!({"action": "click", "selector": "text=Done"}),
            json!({"action": "press_key", "key": "Enter", "selector": "input"}),
        ] {
            click(&tab, "text=Open").await;
            let popup = context.wait_for_tab(SOON, |info| info.url.ends_with(&next)).await.unwrap();
            act(&popup, action).await;
            // The window may still be closing after the key press.
            let error = loop {
                match try_act(&popup, json!({"action": "focus", "selector": "input"})).await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), "tab_not_found");
        }
    });
}

#[test]
fn dialog_is_reported_and_answered() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<button onclick=\"document.title = prompt('Name?', 'Ann')\">Ask</button>").await;
        let outcome = click(&tab, "text=Ask").await;
        let dialog = outcome.dialog.unwrap();
        assert_eq!((dialog.kind.as_str(), dialog.message.as_str(), dialog.answer), ("prompt", "Name?", None));
        let error = try_act(&tab, json!({"action": "click", "selector": "text=Ask"})).await.unwrap_err();
        assert_eq!(error.code(), "dialog_open");
        act(&tab, json!({"action": "handle_dialog", "accept": true, "prompt_text": "Bob"})).await;
        assert_eq!(title(&tab).await, "Bob");
        // Prepare the answer to the next dialog.
        act(&tab, json!({"action": "handle_dialog", "accept": false})).await;
        let outcome = click(&tab, "text=Ask").await;
        assert_eq!(outcome.dialog.unwrap().answer, Some(DialogAnswer::Dismissed));
        assert_eq!(title(&tab).await, "null");
        // `beforeunload` does not ask.
        let tab = open(&context, "<input><script>onbeforeunload = (e) => e.preventDefault()</script>").await;
        act(&tab, json!({"action": "type_text", "selector": "input", "text": "x"})).await;
        assert_eq!(act(&tab, json!({"action": "goto", "url": page("<title>left</title>").await})).await.title, "left");
    });
}

#[test]
fn unanswered_dialog_is_dismissed_and_reported_by_the_next_action() {
    run(async {
        let limits = BrowserLimits { dialog_timeout: Duration::from_millis(300), ..BrowserLimits::default() };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let tab = open(&context, "<button onclick=\"document.title = confirm('Sure?')\">Ask</button>").await;
        assert_eq!(click(&tab, "text=Ask").await.dialog.unwrap().answer, None);
        eventually("the end of the dialog", || tab.dialogs().last()?.answer).await;
        let look = json!({"action": "wait_for_selector", "selector": "html", "state": "attached"});
        let (first, second) = (act(&tab, look.clone()).await, act(&tab, look).await);
        let dialog = first.dialog.unwrap();
        assert_eq!((&*dialog.message, dialog.answer), ("Sure?", Some(DialogAnswer::DismissedUnanswered)));
        assert_eq!((second.dialog, &*second.title), (None, "false"));
    });
}

#[test]
fn cookies_belong_to_their_context() {
    run(async {
        let (one, two) = (context().await, context().await);
        let tab = one.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        let cookies = one.cookies().await.unwrap();
        assert_eq!((cookies.len(), cookies[0].name.as_str(), cookies[0].value.as_str()), (1, "kept", "yes"));
        assert!(cookies[0].http_only && two.cookies().await.unwrap().is_empty());
        assert!(!format!("{:?}", cookies[0]).contains("yes"));
        let cookie = Cookie {
            name: "set".into(),
            value: "by hand".into(),
            domain: "127.0.0.1".into(),
            path: "/".into(),
            expires: -1.0,
            http_only: false,
            secure: false,
            same_site: SameSite::Lax,
            partition_key: None,
            has_cross_site_ancestor: None,
        };
        two.set_cookies(std::slice::from_ref(&cookie)).await.unwrap();
        let tab = two.open_tab().await.unwrap();
        assert_eq!(
            act(&tab, json!({"action": "goto", "url": address("/echo-cookie").await})).await.title,
            "set=by hand"
        );
        let error = two.set_cookies(&[Cookie { name: "a;b".into(), ..cookie }]).await.unwrap_err();
        assert_eq!(error.code(), "invalid_action", "{error}");
        two.clear_cookies().await.unwrap();
        act(&tab, json!({"action": "reload"})).await;
        crate::support::expect_title(&tab, "none").await;
        // A cookie partitioned by another site keeps its partition.
        let partitioned = json!({"name": "p", "value": "1", "domain": "a.example", "path": "/", "expires": -1.0,
            "httpOnly": false, "secure": true, "sameSite": "None", "partitionKey": "https://top.example"});
        let mut partitioned: Cookie = serde_json::from_value(partitioned).unwrap();
        two.set_cookies(std::slice::from_ref(&partitioned)).await.unwrap();
        partitioned.has_cross_site_ancestor = Some(true);
        assert_eq!(two.cookies().await.unwrap(), [partitioned]);
    });
}
