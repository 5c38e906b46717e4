//! Acting on a page.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Problems;
use agentd_browser::{Action, ActionOutcome, ActionRequest, Snapshot, Tab};
use agentd_net::{NetError, Trust};
use url::Url;

use super::uploads::LentFile;
use super::{Browser, Session};
use crate::browser::error::BrowserError;
use crate::browser::model::{ActionFields, ActionName, Actor};

/// An action that was done.
#[derive(Debug)]
pub struct Acted {
    pub outcome: ActionOutcome,
    /// The page after it, as the settings say.
    pub snapshot: Option<Snapshot>,
    /// Whether the browser had ended before and was started anew: pages and cookies are those of a new one.
    pub restarted: bool,
}

impl Browser {
    /// Does one thing in a tab, when those that came before are done.
    ///
    /// # Errors
    /// Parameters are missing, the address may not be reached, or what was missing on the page.
    pub async fn act(&self, actor: &Actor, fields: &ActionFields) -> Result<Acted, BrowserError> {
        let fields = &with_owner_of_file(actor, fields);
        let (request, _lent) = self.request(actor, fields).await?;
        let session = self.session().await?;
        let tab = session.tab_of(actor, fields.tab_id.as_deref()).await?;
        session.acts(actor);
        let refused = session.refusals.count();
        let done = self.act_in(&session, &tab, fields, request).await;
        session.used(self.now());
        session.acts(actor);
        let outcome = explained(&session, refused, fields, done)?;
        Ok(Acted {
            snapshot: self.snapshot_after(&session, &tab).await,
            restarted: self.0.is_restarted.swap(false, Ordering::Relaxed),
            outcome,
        })
    }

    /// What the browser is asked for, once it may be, and the copy of the file that a page is given.
    pub(super) async fn request(
        &self,
        actor: &Actor,
        fields: &ActionFields,
    ) -> Result<(ActionRequest, Option<LentFile>), BrowserError> {
        let mut request = fields.request().map_err(|problems| BrowserError::Invalid { problems })?;
        check_selectors(actor, fields)?;
        self.check_address(fields)?;
        let lent = self.lend_file(actor, fields).await?;
        if let (Some(lent), Action::UploadFile { path, .. }) = (&lent, &mut request.action) {
            path.clone_from(&lent.path);
        }
        Ok((request, lent))
    }

    /// Where the address itself says that it may not be reached, nothing is sent.
    fn check_address(&self, fields: &ActionFields) -> Result<(), BrowserError> {
        let goes_to = fields.url.as_deref().filter(|_| fields.action == ActionName::Goto);
        let url = goes_to.and_then(|url| Url::parse(url).ok()).filter(|url| matches!(url.scheme(), "http" | "https"));
        match url {
            Some(url) => self.0.policy.current().check_url(&url, Trust::Steered).map_err(BrowserError::Refused),
            None => Ok(()),
        }
    }

    async fn snapshot_after(&self, session: &Session, tab: &Tab) -> Option<Snapshot> {
        let settings = self.settings();
        let interval = Duration::from_millis(settings.snapshot_interval_ms.into());
        if !settings.auto_snapshot || !session.takes_snapshot(self.now(), interval) {
            return None;
        }
        // A page that asks something, or has just gone, has none; the action was done all the same.
        tab.snapshot(false).await.ok()
    }
}

/// What was at a point when an agent asked, or when somebody approved it, may be something else by now.
fn check_selectors(actor: &Actor, fields: &ActionFields) -> Result<(), BrowserError> {
    let mut problems = Problems::new();
    for (name, selector) in [("selector", &fields.selector), ("source", &fields.source), ("target", &fields.target)] {
        let is_point = selector.as_deref().is_some_and(agentd_browser::is_point);
        let message = "a point is for people who see the page: name the element, as `@3` of the last snapshot";
        problems.require(!is_point || !matches!(actor, Actor::Agent(_)), name, message);
    }
    problems.into_result().map_err(|problems| BrowserError::Invalid { problems })
}

/// A recording says whose file an agent gave a page, so that it is found again.
fn with_owner_of_file<'f>(actor: &Actor, fields: &'f ActionFields) -> Cow<'f, ActionFields> {
    match actor {
        Actor::Agent(id) if fields.action == ActionName::UploadFile => {
            Cow::Owned(ActionFields { agent_id: Some(id.to_string()), ..fields.clone() })
        }
        Actor::Agent(_) | Actor::Owner => Cow::Borrowed(fields),
    }
}

/// Turns a navigation that ended at a server which the proxy refused or could not reach into an error, whatever
/// action led there.
pub(super) fn explained(
    session: &Session,
    refused: u64,
    fields: &ActionFields,
    done: Result<ActionOutcome, agentd_browser::BrowserError>,
) -> Result<ActionOutcome, BrowserError> {
    let url = match &done {
        Ok(outcome) if outcome.navigated || fields.action == ActionName::Goto => &outcome.url,
        Err(agentd_browser::BrowserError::Navigation { failed_url, .. }) => failed_url,
        Ok(_) | Err(_) => return Ok(done?),
    };
    if let Some(reason) = session.refusals.refused_since(refused, url) {
        return Err(BrowserError::Refused(reason));
    }
    // Only a document that is the proxy's own answer is a failure; another request of the page to the same server
    // may have failed as well.
    let may_be_of_proxy = match &done {
        Ok(outcome) => has_gateway_error(session, &outcome.tab_id),
        Err(_) => true,
    };
    match session.refusals.failed_since(refused, url).filter(|_| may_be_of_proxy) {
        Some(error) => Err(navigation_failed(url, &error).into()),
        None => Ok(done?),
    }
}

/// Whether the document of a tab came with a status that the proxy gives to servers it cannot reach.
fn has_gateway_error(session: &Session, tab_id: &str) -> bool {
    let status = session.context().tab(tab_id).ok().and_then(|tab| tab.document_status());
    matches!(status, Some(502 | 504))
}

/// Names scheme and host only: the rest of an address may be secret.
fn navigation_failed(url: &str, error: &NetError) -> agentd_browser::BrowserError {
    let shown = Url::parse(url).map_or_else(|_| "the page".to_owned(), |url| url.origin().ascii_serialization());
    agentd_browser::BrowserError::Navigation { url: shown, failed_url: url.to_owned(), reason: error.to_string() }
}
