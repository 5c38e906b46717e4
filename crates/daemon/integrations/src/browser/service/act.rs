//! Performing actions.

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

/// Maximum size of an uploaded file.
const MAX_FILE_BYTES: u64 = 100 << 20;

/// Completed action.
#[derive(Debug)]
pub struct PerformedAction {
    pub outcome: ActionOutcome,
    /// Snapshot after the action, depending on the settings.
    pub snapshot: Option<Snapshot>,
    /// Whether the browser had ended and was restarted, so that pages and cookies are lost.
    pub restarted: bool,
}

/// Private copy of an uploaded file, deleted on drop.
#[derive(Debug)]
pub(super) struct UploadCopy {
    path: PathBuf,
    _folder: TempDir,
}

impl Browser {
    /// Performs an action in a tab after earlier ones have completed.
    ///
    /// # Errors
    /// The URL is blocked, or a condition on the page was not met.
    pub async fn act(&self, actor: &Actor, mut action: BrowserAction) -> Result<PerformedAction, BrowserError> {
        if let (Actor::Agent(id), Action::UploadFile { .. }) = (actor, &action.action) {
            // Agents upload files of their own workspace; the id is recorded, so that a replay finds the file.
            action.agent_id = Some(id.to_string());
        }
        let (request, _upload) = self.request(actor, &action).await?;
        let session = self.session().await?;
        let tab = session.tab_of(actor, action.tab_id.as_deref()).await?;
        session.attribute_downloads_to(actor);
        let refused = session.refusals.count();
        let done = self.0.recordings.act(session.context(), &tab, &action, request).await;
        session.mark_used(self.now());
        session.attribute_downloads_to(actor);
        let outcome = with_proxy_error(&session, refused, &action.action, done)?;
        Ok(PerformedAction {
            snapshot: self.snapshot_after(&session, &tab).await,
            restarted: self.0.is_restarted.swap(false, Ordering::Relaxed),
            outcome,
        })
    }

    /// Builds the permitted request, with a copy of the file to upload.
    pub(super) async fn request(
        &self,
        actor: &Actor,
        action: &BrowserAction,
    ) -> Result<(ActionRequest, Option<UploadCopy>), BrowserError> {
        let mut request = ActionRequest { action: action.action.clone(), timeout_ms: action.timeout_ms };
        check_selectors(actor, &mut request.action)?;
        let upload = match &mut request.action {
            Action::Goto { url, .. } => {
                self.check_address(url)?;
                None
            }
            Action::UploadFile { path, .. } => {
                let upload = self.copy_upload(&path.to_string_lossy(), action.agent_id.as_deref()).await?;
                path.clone_from(&upload.path);
                Some(upload)
            }
            _ => None,
        };
        Ok((request, upload))
    }

    /// Rejects a URL that is known to be blocked before anything is sent.
    fn check_address(&self, url: &str) -> Result<(), BrowserError> {
        match Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")) {
            Some(url) => self.0.policy.current().check_url(&url, Trust::Untrusted).map_err(BrowserError::Refused),
            None => Ok(()),
        }
    }

    /// Copies a file from an agent's workspace or the downloads folder.
    async fn copy_upload(&self, named: &str, agent: Option<&str>) -> Result<UploadCopy, BrowserError> {
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
        Ok(UploadCopy { path, _folder: folder })
    }

    async fn snapshot_after(&self, session: &Session, tab: &Tab) -> Option<Snapshot> {
        let settings = self.settings();
        let interval = Duration::from_millis(settings.snapshot_interval_ms.into());
        if !settings.auto_snapshot || !session.take_snapshot_turn(self.now(), interval) {
            return None;
        }
        // A page with an open dialog, or one that was closed, has no snapshot; the action has still succeeded.
        tab.snapshot(false).await.ok()
    }
}

/// Rejects points from agents: the element at a point can change before the action is approved or runs.
fn check_selectors(actor: &Actor, action: &mut Action) -> Result<(), BrowserError> {
    let mut problems = Problems::new();
    for (parameter, selector) in action.selectors_mut() {
        let is_point = agentd_browser::is_point(selector);
        let message = "must not be a point; use a reference such as `@3` of the last snapshot";
        problems.require(!is_point || !matches!(actor, Actor::Agent(_)), parameter, message);
    }
    Ok(problems.into_result()?)
}

/// Converts a navigation that ended at a server which the proxy blocked or could not reach into an error, independent
/// of the action.
pub(super) fn with_proxy_error(
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
    // Only a document that is the proxy's own response is a failure; other requests of the page to the same server may
    // have failed as well.
    let may_be_of_proxy = match &done {
        Ok(outcome) => has_gateway_error(session, &outcome.tab_id),
        Err(_) => true,
    };
    match session.refusals.failed_since(refused, url).filter(|_| may_be_of_proxy) {
        Some(error) => Err(navigation_failed(url, &error).into()),
        None => Ok(done?),
    }
}

/// Returns whether the document of a tab has a status that the proxy uses for unreachable servers.
fn has_gateway_error(session: &Session, tab_id: &str) -> bool {
    let status = session.context().tab(tab_id).ok().and_then(|tab| tab.document_status());
    matches!(status, Some(502 | 504))
}

/// Reports scheme and host only, because the rest of a URL may be secret.
fn navigation_failed(url: &str, error: &NetError) -> agentd_browser::BrowserError {
    let displayed_url =
        Url::parse(url).map_or_else(|_| "the page".to_owned(), |url| url.origin().ascii_serialization());
    agentd_browser::BrowserError::Navigation {
        url: displayed_url,
        failed_url: url.to_owned(),
        reason: error.to_string(),
    }
}
