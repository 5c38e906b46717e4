//! What makes a person known to sites: cookies and local storage, in the form of Playwright's storage states.
//!
//! Storage belongs to a site and is reached from a page of it only. So a tab of our own goes to each site that was
//! shown, with every request answered here: nothing is sent, and no script of the site runs.
//!
//! Deliberately absent: `IndexedDB`, the storage of sessions, and storage of frames inside other sites.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::browser::Context;
use crate::cdp::{Heard, Subscription};
use crate::environment::origin_of;
use crate::tab::{Deadline, LoadState, QUICK, Tab};
use crate::{BrowserError, Cookie};

/// Names and values of all items.
pub const MAX_STATE_BYTES: usize = 8 << 20;
const MAX_ORIGINS: usize = 300;
const LIMIT: Duration = Duration::from_secs(60);
const EMPTY_PAGE: &[u8] = b"<!doctype html><title></title>";

/// Its values are not printed.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StorageState {
    #[serde(default)]
    pub cookies: Vec<Cookie>,
    #[serde(default)]
    pub origins: Vec<OriginStorage>,
}

/// The local storage of a site.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginStorage {
    pub origin: String,
    #[serde(default)]
    pub local_storage: Vec<StoredItem>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredItem {
    pub name: String,
    pub value: String,
}

impl std::fmt::Debug for StorageState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorageState").field("cookies", &self.cookies).field("origins", &self.origins).finish()
    }
}

impl std::fmt::Debug for OriginStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OriginStorage").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StoredItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredItem").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StorageState {
    /// # Errors
    /// [`BrowserError::Invalid`] for what no browser can have, [`BrowserError::TooMuch`] for what is too large.
    pub fn check(&self) -> Result<(), BrowserError> {
        for OriginStorage { origin, .. } in &self.origins {
            if origin_of(origin).as_deref() != Some(origin) {
                let shown = &origin[..origin.floor_char_boundary(200)];
                return Err(BrowserError::Invalid(format!("`{shown}` is no origin such as https://a.example")));
            }
        }
        let cookies = self.cookies.iter().map(|cookie| cookie.name.len() + cookie.value.len());
        let items = self.origins.iter().flat_map(|origin| &origin.local_storage);
        let bytes: usize = cookies.chain(items.map(|item| item.name.len() + item.value.len())).sum();
        if bytes > MAX_STATE_BYTES || self.origins.len() > MAX_ORIGINS {
            let bounds = format!("{MAX_STATE_BYTES} bytes and {MAX_ORIGINS} sites");
            return Err(BrowserError::TooMuch(format!("the state has more than {bounds}")));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluated {
    result: Value,
    #[serde(default)]
    exception_details: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Value {
    #[serde(default)]
    value: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused {
    request_id: String,
}

impl Context {
    /// Cookies, and what the sites that were shown have stored.
    ///
    /// # Errors
    /// It is too much, or the browser does not answer.
    pub async fn storage_state(&self) -> Result<StorageState, BrowserError> {
        let mut state = StorageState { cookies: self.cookies().await?, origins: Vec::new() };
        let origins = self.environment().origins();
        self.in_own_page(async |tab, deadline| {
            for origin in origins {
                visit(tab, &origin, deadline).await?;
                let items: Vec<(String, String)> = evaluate(tab, "Object.entries(localStorage)").await?;
                if items.is_empty() {
                    continue;
                }
                let items = items.into_iter().map(|(name, value)| StoredItem { name, value });
                state.origins.push(OriginStorage { origin, local_storage: items.collect() });
                state.check()?;
            }
            Ok(())
        })
        .await?;
        Ok(state)
    }

    /// Puts a state in the place of what is there. What pages hold in memory stays until they are loaded again.
    ///
    /// # Errors
    /// The browser does not take it; then the cookies are as they were.
    pub async fn restore_storage_state(&self, state: &StorageState) -> Result<(), BrowserError> {
        state.check()?;
        let before = self.cookies().await?;
        let mut origins = self.environment().origins();
        let new = state.origins.iter().map(|origin| &origin.origin).filter(|origin| !origins.contains(origin));
        origins.extend(new.cloned().collect::<Vec<_>>());
        self.clear_cookies().await?;
        if let Err(error) = self.set_cookies(&state.cookies).await {
            self.set_cookies(&before).await?;
            return Err(error);
        }
        self.in_own_page(async |tab, deadline| {
            for origin in origins {
                let parameters = json!({"origin": origin, "storageTypes": CLEARED});
                tab.call::<IgnoredAny>("Storage.clearDataForOrigin", parameters, QUICK).await?;
                self.environment().saw(&origin);
                let Some(stored) = state.origins.iter().find(|other| other.origin == origin) else { continue };
                visit(tab, &origin, deadline).await?;
                let items: Vec<_> = stored.local_storage.iter().map(|item| (&item.name, &item.value)).collect();
                let expression = format!(
                    "localStorage.clear(); for (const [name, value] of {}) localStorage.setItem(name, value); true",
                    json!(items)
                );
                evaluate::<IgnoredAny>(tab, &expression).await?;
            }
            Ok(())
        })
        .await
    }

    /// In a tab that reaches nothing: every request is answered with an empty page.
    async fn in_own_page(
        &self,
        work: impl AsyncFnOnce(&Tab, Deadline) -> Result<(), BrowserError>,
    ) -> Result<(), BrowserError> {
        let tab = self.open_own_tab().await?;
        let done = async {
            let events = self.shared().connection.subscribe(Some(tab.main_session()), &["Fetch.requestPaused"], 64);
            let bypass = json!({"bypass": true});
            tab.call::<IgnoredAny>("Network.setBypassServiceWorker", bypass, QUICK).await?;
            let everything = json!({"patterns": [{"urlPattern": "*"}]});
            tab.call::<IgnoredAny>("Fetch.enable", everything, QUICK).await?;
            let deadline = Deadline::after(LIMIT);
            tokio::select! {
                done = tokio::time::timeout(LIMIT, work(&tab, deadline)) => {
                    done.unwrap_or_else(|_| Err(deadline.timeout("reading or writing what sites store")))
                }
                failed = answer_all(&tab, events) => failed,
            }
        };
        let done = done.await;
        let closed = self.close_this(&tab).await;
        done.and(closed)
    }
}

/// All that a site can keep, but for cookies.
const CLEARED: &str = "appcache,cache_storage,file_systems,indexeddb,interest_groups,local_storage,service_workers,\
                       shader_cache,shared_storage,storage_buckets,websql";

async fn visit(tab: &Tab, origin: &str, deadline: Deadline) -> Result<(), BrowserError> {
    tab.goto(&format!("{origin}/"), LoadState::DomContentLoaded, deadline).await
}

async fn evaluate<T: DeserializeOwned>(tab: &Tab, expression: &str) -> Result<T, BrowserError> {
    let parameters = json!({"expression": expression, "returnByValue": true});
    let evaluated: Evaluated = tab.call("Runtime.evaluate", parameters, QUICK).await?;
    if evaluated.exception_details.is_some() {
        return Err(BrowserError::Invalid("the browser does not take what a site has stored".to_owned()));
    }
    let read = serde_json::from_value(evaluated.result.value);
    read.map_err(|error| BrowserError::Protocol(format!("a storage was answered in another form: {error}")))
}

async fn answer_all(tab: &Tab, mut events: Subscription) -> Result<(), BrowserError> {
    while let Some(heard) = events.next().await {
        let Heard::Event(event) = heard else { continue };
        let Some(Paused { request_id }) = event.read() else { continue };
        let parameters = json!({
            "requestId": request_id,
            "responseCode": 200,
            "responseHeaders": [{"name": "content-type", "value": "text/html; charset=utf-8"}],
            "body": STANDARD.encode(EMPTY_PAGE),
        });
        tab.call::<IgnoredAny>("Fetch.fulfillRequest", parameters, QUICK).await?;
    }
    Err(BrowserError::Ended("its connection has ended".into()))
}
