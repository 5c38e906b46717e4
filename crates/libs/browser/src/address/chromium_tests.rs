//! Address rule against a real Chromium. Addresses are opened without `goto`, as Chromium's own pages open them.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_process::Spawner;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cdp::CdpError;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::Deadline;
use crate::{Action, Area, Browser, BrowserError, BrowserOptions, Context, ImageFormat, Tab};

const PAGE: &str = "data:text/html,<title>page</title><button>Save</button>";
const REFUSED: [&str; 4] = ["file:///etc/passwd", "chrome://version/", "chrome://bookmarks/", "view-source:data:,x"];

fn run<T: Future<Output = ()>>(test: impl FnOnce(Context) -> T) {
    if !Path::new("/usr/bin/chromium").exists() {
        assert!(std::env::var_os("AGENTD_REQUIRE_CHROMIUM").is_none(), "there is no Chromium; run `make chromium`");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let browser = Browser::new(BrowserOptions::default(), Spawner::start().unwrap());
        let context = browser.context().await.unwrap();
        tokio::time::timeout(Duration::from_secs(120), test(context)).await.expect("the test took too long");
        browser.close().await;
    });
}

async fn goto(tab: &Tab, url: &str) {
    tab.act(Action::Goto { url: url.to_owned(), wait_until: None }).await.unwrap();
}

/// Navigates without the check of `goto`.
async fn navigate(tab: &Tab, url: &str) -> Result<(), CdpError> {
    let connection = &tab.shared.connection;
    let parameters = json!({"url": url});
    connection
        .call::<IgnoredAny>(Some(&tab.main_session()), "Page.navigate", parameters, COMMAND_TIMEOUT)
        .await
        .map(|_| ())
}

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, BrowserError>) {
    assert_eq!(result.unwrap_err().code(), "address_refused");
}

#[test]
fn refused_address_in_an_opened_tab_is_replaced_and_never_read() {
    run(async |context| {
        let tab = context.open_tab().await.unwrap();
        for url in REFUSED {
            goto(&tab, PAGE).await;
            let refusals = tab.state.borrow().refusals;
            let reader = {
                let tab = Arc::clone(&tab);
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while tab.state.borrow().refusals == refusals || tab.check_address().is_err() {
                        let (snapshot, picture) =
                            tokio::join!(tab.snapshot(true), tab.screenshot(ImageFormat::Png, &Area::Viewport));
                        drop(picture);
                        read.extend(snapshot.map(|snapshot| format!("{} {}", snapshot.url, snapshot.snapshot)));
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    read
                })
            };
            navigate(&tab, url).await.unwrap();
            let read = tokio::time::timeout(COMMAND_TIMEOUT, reader).await.expect("the address stayed").unwrap();
            let is_of_page = |text: &String| text.starts_with(PAGE) || text.starts_with("about:blank");
            assert!(read.iter().all(is_of_page), "{url}: {read:?}");
            eventually("the blank page", || tab.info().url == "about:blank").await;
        }
        goto(&tab, PAGE).await;
        assert_eq!(tab.refresh_info().await.title, "page");
    });
}

#[test]
fn action_that_leads_to_a_refused_address_is_an_error() {
    run(async |context| {
        let tab = context.open_tab().await.unwrap();
        goto(&tab, PAGE).await;
        let deadline = Deadline::after(COMMAND_TIMEOUT);
        let navigation = async { navigate(&tab, "chrome://version/").await.map_err(BrowserError::from) };
        assert_refused(tab.run_with_outcome(navigation, deadline).await);
        eventually("the blank page", || tab.info().url == "about:blank").await;
        // The history still contains the refused page.
        let refusals = tab.state.borrow().refusals;
        assert_refused(tab.act(Action::GoBack).await);
        assert_eq!(tab.state.borrow().refusals, refusals, "nothing was opened");
    });
}

#[test]
fn tab_that_chromium_opens_with_a_refused_address_is_closed() {
    run(async |context| {
        let tab = context.open_tab().await.unwrap();
        goto(&tab, PAGE).await;
        let connection = context.shared().connection.clone();
        for url in REFUSED {
            let parameters = json!({"url": url, "browserContextId": context.id()});
            let created: Value =
                connection.call(None, "Target.createTarget", parameters, COMMAND_TIMEOUT).await.unwrap();
            let id = created["targetId"].as_str().unwrap().to_owned();
            let started = Instant::now();
            loop {
                let targets: Value =
                    connection.call(None, "Target.getTargets", json!({}), COMMAND_TIMEOUT).await.unwrap();
                if !targets["targetInfos"].as_array().unwrap().iter().any(|target| target["targetId"] == *id) {
                    break;
                }
                assert!(started.elapsed() < COMMAND_TIMEOUT, "{url} stayed open");
                if let Ok(tab) = context.tab(&id) {
                    assert!(tab.snapshot(true).await.is_err(), "{url} was read");
                }
            }
        }
        assert_eq!(context.tabs().len(), 1);
        // A popup that navigates to a refused address later is closed as well.
        let script = "data:text/html,<button onclick=\"window.open('about:blank')\">open</button>";
        goto(&tab, script).await;
        tab.act(Action::Click { selector: "text=open".to_owned() }).await.unwrap();
        let popup = context.wait_for_tab(COMMAND_TIMEOUT, |info| info.opener_id.is_some()).await.unwrap();
        let _ = navigate(&popup, "file:///etc/passwd").await;
        eventually("the end of the tab", || context.tabs().len() == 1).await;
    });
}
