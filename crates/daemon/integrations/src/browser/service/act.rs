//! Acting on a page.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Problems;
use agentd_browser::{Action, ActionOutcome, ActionRequest, Snapshot, Tab};
use agentd_net::{NetError, Trust};
use tempfile::TempDir;
use url::Url;

use super::{Browser, Session};
use crate::browser::error::BrowserError;
use crate::browser::model::{Actor, BrowserAction};

/// Maximum size of a file that a page is given.
const MAX_FILE_BYTES: u64 = 100 << 20;

/// An action that was done.
#[derive(Debug)]
pub struct Acted {
    pub outcome: ActionOutcome,
    /// The page after it, as the settings say.
    pub snapshot: Option<Snapshot>,
    /// Whether the browser had ended before and was started anew: pages and cookies are those of a new one.
    pub restarted: bool,
}

/// A copy of a file, which nobody else can change any more; gone when this is dropped.
#[derive(Debug)]
pub(super) struct LentFile {
    path: PathBuf,
    _folder: TempDir,
}

impl Browser {
    /// Does one thing in a tab, when those that came before are done.
    ///
    /// # Errors
    /// The address may not be reached, or what was missing on the page.
    pub async fn act(&self, actor: &Actor, mut action: BrowserAction) -> Result<Acted, BrowserError> {
        if let (Actor::Agent(id), Action::UploadFile { .. }) = (actor, &action.action) {
            // An agent gives files of its own workspace; a recording says whose, so that a replay finds them.
            action.agent_id = Some(id.to_string());
        }
        let (request, _lent) = self.request(actor, &action).await?;
        let session = self.session().await?;
        let tab = session.tab_of(actor, action.tab_id.as_deref()).await?;
        session.acts(actor);
        let refused = session.refusals.count();
        let done = self.0.recordings.act(session.context(), &tab, &action, request).await;
        session.used(self.now());
        session.acts(actor);
        let outcome = explained(&session, refused, &action.action, done)?;
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
        action: &BrowserAction,
    ) -> Result<(ActionRequest, Option<LentFile>), BrowserError> {
        let mut request = ActionRequest { action: action.action.clone(), timeout_ms: action.timeout_ms };
        check_selectors(actor, &mut request.action)?;
        let lent = match &mut request.action {
            Action::Goto { url, .. } => {
                self.check_address(url)?;
                None
            }
            Action::UploadFile { path, .. } => {
                let lent = self.lend_file(&path.to_string_lossy(), action.agent_id.as_deref()).await?;
                path.clone_from(&lent.path);
                Some(lent)
            }
            _ => None,
        };
        Ok((request, lent))
    }

    /// Where the address itself says that it may not be reached, nothing is sent.
    fn check_address(&self, url: &str) -> Result<(), BrowserError> {
        match Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")) {
            Some(url) => self.0.policy.current().check_url(&url, Trust::Steered).map_err(BrowserError::Refused),
            None => Ok(()),
        }
    }

    /// Copies a file of an agent's workspace, or of the folder of downloads, and of nowhere else.
    async fn lend_file(&self, named: &str, agent: Option<&str>) -> Result<LentFile, BrowserError> {
        let source = match agent {
            Some(agent) => {
                let agent = self.0.agents.get(agent).await?;
                self.0.agents.workspace(&agent)?
            }
            None => self.0.downloads.folder()?,
        };
        let folder = tempfile::tempdir().map_err(BrowserError::Folder)?;
        let copied = self.0.tools.copy_file(&source, named, folder.path(), MAX_FILE_BYTES).await;
        let path = copied.map_err(|error| BrowserError::File(error.to_string()))?;
        Ok(LentFile { path, _folder: folder })
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
fn check_selectors(actor: &Actor, action: &mut Action) -> Result<(), BrowserError> {
    let mut problems = Problems::new();
    for (parameter, selector) in action.selectors_mut() {
        let is_point = agentd_browser::is_point(selector);
        let message = "a point is for people who see the page: name the element, as `@3` of the last snapshot";
        problems.require(!is_point || !matches!(actor, Actor::Agent(_)), parameter, message);
    }
    Ok(problems.into_result()?)
}

/// Turns a navigation that ended at a server which the proxy refused or could not reach into an error, whatever
/// action led there.
pub(super) fn explained(
    session: &Session,
    refused: u64,
    action: &Action,
    done: Result<ActionOutcome, agentd_browser::BrowserError>,
) -> Result<ActionOutcome, BrowserError> {
    let url = match &done {
        Ok(outcome) if outcome.navigated || matches!(action, Action::Goto { .. }) => &outcome.url,
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
