//! What makes a person known to sites: cookies, local storage and databases, in the form of Playwright's storage states.
//!
//! Storage belongs to a site and is reached from a page of it only. So a tab of our own goes to each site that was
//! shown, with every request answered here: nothing is sent, and no script of the site runs.
//!
//! Deliberately absent: the storage of sessions, files of sites, and storage of frames inside other sites.

mod databases;
mod model;

use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::BrowserError;
use crate::browser::Context;
use crate::own_page::OwnPage;
use crate::shared::QUICK;
use crate::tab::Deadline;
pub use databases::Database;
pub use model::{LeftOut, MAX_STATE_BYTES, OriginStorage, SavedState, StorageState, StoredItem};

const LIMIT: Duration = Duration::from_secs(60);
const FUNCTIONS: &str = include_str!("../page/storage.js");
/// All that a site can keep, but for cookies.
const CLEARED: &str = "appcache,cache_storage,file_systems,indexeddb,interest_groups,local_storage,service_workers,\
                       shader_cache,shared_storage,storage_buckets,websql";

/// What a site has stored.
#[derive(Deserialize)]
struct Stored {
    items: Vec<(String, String)>,
    databases: Vec<Database>,
    left_out: Vec<String>,
}

impl Context {
    /// Cookies, and what the sites that were shown have stored. A database that cannot be in it is named.
    ///
    /// # Errors
    /// It is too much, or the browser does not answer.
    pub async fn storage_state(&self) -> Result<SavedState, BrowserError> {
        let state = StorageState { cookies: self.cookies().await?, origins: Vec::new() };
        let mut saved = SavedState { state, left_out: Vec::new() };
        let origins = self.environment().origins();
        self.in_own_page(async |page, deadline| {
            for origin in origins {
                visit(page, &origin, deadline).await?;
                let call = format!("save({})", MAX_STATE_BYTES.saturating_sub(saved.state.bytes()));
                let stored: Stored = evaluate(page, &call, deadline).await?;
                let items = stored.items.into_iter().map(|(name, value)| StoredItem { name, value });
                saved.add(origin, items.collect(), stored.databases, stored.left_out);
                saved.state.check()?;
            }
            Ok(())
        })
        .await?;
        Ok(saved)
    }

    /// Puts a state in the place of what is there. What pages hold in memory stays until they are loaded again.
    ///
    /// # Errors
    /// The browser does not take it; then the cookies are as they were. Nothing has changed where that can be seen from
    /// the state alone.
    pub async fn restore_storage_state(&self, state: &StorageState) -> Result<(), BrowserError> {
        state.check()?;
        let before = self.cookies().await?;
        let mut origins = self.environment().origins();
        let new = state.origins.iter().map(|origin| &origin.origin).filter(|origin| !origins.contains(origin));
        origins.extend(new.cloned().collect::<Vec<_>>());
        let mut has_changed = false;
        let restored = self.in_own_page(async |page, deadline| {
            for stored in state.origins.iter().filter(|stored| !stored.indexed_db.is_empty()) {
                let call = format!("check({})", argument(&stored.indexed_db));
                evaluate::<IgnoredAny>(page, &call, deadline).await?;
            }
            has_changed = true;
            self.clear_cookies().await?;
            self.set_cookies(&state.cookies).await?;
            for origin in origins {
                self.put_back(page, &origin, state, deadline).await?;
            }
            Ok(())
        });
        let restored = restored.await;
        if restored.is_err() && has_changed {
            // Nobody is to be known half as somebody else. It fails where the browser has ended.
            let _ = self.clear_cookies().await;
            let _ = self.set_cookies(&before).await;
        }
        restored
    }

    /// What one site has in the state, in the place of all that it has.
    async fn put_back(
        &self,
        page: &OwnPage,
        origin: &str,
        state: &StorageState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let parameters = json!({"origin": origin, "storageTypes": CLEARED});
        page.tab.call::<IgnoredAny>("Storage.clearDataForOrigin", parameters, QUICK).await?;
        self.environment().saw(origin);
        let Some(stored) = state.origins.iter().find(|other| other.origin == origin) else { return Ok(()) };
        visit(page, origin, deadline).await?;
        let items: Vec<_> = stored.local_storage.iter().map(|item| (&item.name, &item.value)).collect();
        let call = format!("restore(...{})", argument(&(items, &stored.indexed_db)));
        evaluate::<IgnoredAny>(page, &call, deadline).await?;
        Ok(())
    }

    /// Closes the page afterwards, whatever the outcome.
    async fn in_own_page(
        &self,
        work: impl AsyncFnOnce(&OwnPage, Deadline) -> Result<(), BrowserError>,
    ) -> Result<(), BrowserError> {
        let page = OwnPage::open(self, &[]).await?;
        let deadline = Deadline::after(LIMIT);
        let done = tokio::time::timeout(LIMIT, work(&page, deadline)).await;
        let done = done.unwrap_or_else(|_| Err(deadline.timeout("reading or writing what sites store")));
        let closed = self.close_this(&page.tab).await;
        done.and(closed)
    }
}

async fn visit(page: &OwnPage, origin: &str, deadline: Deadline) -> Result<(), BrowserError> {
    page.visit(&format!("{origin}/"), deadline).await
}

/// As text: a name such as `__proto__` means something else in a script.
fn argument(value: &impl Serialize) -> String {
    format!("JSON.parse({})", json!(json!(value).to_string()))
}

/// Calls one of our functions. Its page has no script but ours.
async fn evaluate<T: DeserializeOwned>(page: &OwnPage, call: &str, deadline: Deadline) -> Result<T, BrowserError> {
    // A comment of the file ends with its line.
    let expression = format!("{FUNCTIONS}\n.{call}");
    let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
    let evaluated = page.run("Runtime.evaluate", parameters, deadline.remaining()).await?;
    if evaluated.exception_details.is_some() {
        return Err(BrowserError::Invalid("the browser does not take what a site has stored".to_owned()));
    }
    let read = serde_json::from_value(evaluated.result.value);
    read.map_err(|error| BrowserError::Protocol(format!("a storage was answered in another form: {error}")))
}
