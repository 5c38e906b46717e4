//! Storage state of a context in Playwright's format: cookies, local storage and databases, which carry logins.
//!
//! Storage is accessible only from a page of its origin. An internal tab visits each recorded origin, with every
//! request answered locally: nothing is sent, and no script of the site runs.
//!
//! Deliberately absent: session storage, file systems, and partitioned storage of third-party frames.

mod databases;
mod model;

use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::BrowserError;
use crate::browser::Context;
use crate::internal_page::InternalPage;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::Deadline;
pub use databases::Database;
pub use model::{MAX_STATE_BYTES, OriginStorage, SavedState, SkippedDatabase, StorageState, StoredItem};

const LIMIT: Duration = Duration::from_secs(60);
const STORAGE_SCRIPT: &str = include_str!("../page/storage.js");
/// Storage types that are cleared: everything except cookies.
const CLEARED_STORAGE_TYPES: &str = "appcache,cache_storage,file_systems,indexeddb,interest_groups,local_storage,\
                                     service_workers,shader_cache,shared_storage,storage_buckets,websql";

/// Storage of an origin, as read from its page.
#[derive(Deserialize)]
struct Stored {
    items: Vec<(String, String)>,
    databases: Vec<Database>,
    left_out: Vec<String>,
}

impl Context {
    /// Returns cookies and the storage of visited origins, with the names of omitted databases.
    ///
    /// # Errors
    /// The state exceeds the size limit, or the browser does not respond.
    pub async fn storage_state(&self) -> Result<SavedState, BrowserError> {
        let state = StorageState { cookies: self.cookies().await?, origins: Vec::new() };
        let mut saved = SavedState { state, left_out: Vec::new() };
        let origins = self.environment().origins();
        self.with_internal_page(async |page, deadline| {
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

    /// Replaces the current state. Pages keep their memory until they are reloaded.
    ///
    /// # Errors
    /// The state is invalid, which changes nothing, or the browser rejects it. In that case the previous cookies are
    /// restored.
    pub async fn restore_storage_state(&self, state: &StorageState) -> Result<(), BrowserError> {
        state.check()?;
        let before = self.cookies().await?;
        let mut origins = self.environment().origins();
        let new = state.origins.iter().map(|origin| &origin.origin).filter(|origin| !origins.contains(origin));
        origins.extend(new.cloned().collect::<Vec<_>>());
        let mut has_changed = false;
        let restored = self.with_internal_page(async |page, deadline| {
            for stored in state.origins.iter().filter(|stored| !stored.indexed_db.is_empty()) {
                let call = format!("check({})", argument(&stored.indexed_db));
                evaluate::<IgnoredAny>(page, &call, deadline).await?;
            }
            has_changed = true;
            self.clear_cookies().await?;
            self.set_cookies(&state.cookies).await?;
            for origin in origins {
                self.restore_origin(page, &origin, state, deadline).await?;
            }
            Ok(())
        });
        let restored = restored.await;
        if restored.is_err() && has_changed {
            // Avoid a mixture of two identities. Fails if the browser has ended.
            let _ = self.clear_cookies().await;
            let _ = self.set_cookies(&before).await;
        }
        restored
    }

    /// Replaces the storage of one origin by that of the state.
    async fn restore_origin(
        &self,
        page: &InternalPage,
        origin: &str,
        state: &StorageState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let parameters = json!({"origin": origin, "storageTypes": CLEARED_STORAGE_TYPES});
        page.tab.call::<IgnoredAny>("Storage.clearDataForOrigin", parameters, COMMAND_TIMEOUT).await?;
        self.environment().record_origin(origin);
        let Some(stored) = state.origins.iter().find(|other| other.origin == origin) else { return Ok(()) };
        visit(page, origin, deadline).await?;
        let items: Vec<_> = stored.local_storage.iter().map(|item| (&item.name, &item.value)).collect();
        let call = format!("restore(...{})", argument(&(items, &stored.indexed_db)));
        evaluate::<IgnoredAny>(page, &call, deadline).await?;
        Ok(())
    }

    /// Runs work in an internal page and closes the page afterwards, whatever the outcome.
    async fn with_internal_page(
        &self,
        work: impl AsyncFnOnce(&InternalPage, Deadline) -> Result<(), BrowserError>,
    ) -> Result<(), BrowserError> {
        let page = InternalPage::open(self, &[]).await?;
        let deadline = Deadline::after(LIMIT);
        let done = tokio::time::timeout(LIMIT, work(&page, deadline)).await;
        let done = done.unwrap_or_else(|_| Err(deadline.timeout("access to the storage of sites")));
        let closed = self.close_and_wait(&page.tab).await;
        done.and(closed)
    }
}

async fn visit(page: &InternalPage, origin: &str, deadline: Deadline) -> Result<(), BrowserError> {
    page.visit(&format!("{origin}/"), deadline).await
}

/// Passes an argument as JSON text, since a literal would treat names such as `__proto__` specially.
fn argument(value: &impl Serialize) -> String {
    format!("JSON.parse({})", json!(json!(value).to_string()))
}

/// Calls a function of the storage script, the only script in the page.
async fn evaluate<T: DeserializeOwned>(page: &InternalPage, call: &str, deadline: Deadline) -> Result<T, BrowserError> {
    // The line break ends a trailing comment of the file.
    let expression = format!("{STORAGE_SCRIPT}\n.{call}");
    let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
    let evaluated = page.run("Runtime.evaluate", parameters, deadline.remaining()).await?;
    if evaluated.exception_details.is_some() {
        return Err(BrowserError::Invalid("the browser rejected the stored data of a site".to_owned()));
    }
    let read = serde_json::from_value(evaluated.result.value);
    read.map_err(|error| BrowserError::Protocol(format!("the page returned its storage in an unknown format: {error}")))
}
