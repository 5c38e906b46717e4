//! Files that are given to pages: of a workspace, or of the downloads, and no others.

use std::path::PathBuf;

use tempfile::TempDir;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::{ActionFields, ActionName, Actor};

/// More is not given to a page.
const MAX_BYTES: u64 = 100 << 20;

/// A copy of a file, which nobody else can change any more; gone when this is dropped.
#[derive(Debug)]
pub(super) struct LentFile {
    pub(super) path: PathBuf,
    _folder: TempDir,
}

impl Browser {
    /// The file that an action names, if it names one.
    pub(super) async fn lend_file(
        &self,
        actor: &Actor,
        fields: &ActionFields,
    ) -> Result<Option<LentFile>, BrowserError> {
        let named = fields.path.as_deref().filter(|_| fields.action == ActionName::UploadFile);
        let Some(named) = named else { return Ok(None) };
        let agent = match actor {
            Actor::Agent(id) => Some(id.to_string()),
            Actor::Owner => fields.agent_id.clone(),
        };
        let source = match agent {
            Some(agent) => {
                let agent = self.0.agents.get(&agent).await?;
                self.0.agents.workspace(&agent)?
            }
            None => {
                let folder = self.download_folder();
                self.0.context.data_dir.make_folder(&folder).map_err(BrowserError::Folder)?;
                folder
            }
        };
        let folder = tempfile::tempdir().map_err(BrowserError::Folder)?;
        let copied = self.0.tools.copy_file(&source, named, folder.path(), MAX_BYTES).await;
        let path = copied.map_err(|error| BrowserError::File(error.to_string()))?;
        Ok(Some(LentFile { path, _folder: folder }))
    }
}
