//! Stores results that are too long for a model in the workspace, where the model can read them in parts.

use std::path::Path;

use super::tool::ToolError;
use crate::workspaces::{RelativePath, Workspace, WorkspaceQuota};

/// Workspace folder for trusted results.
pub(super) const FOLDER: &str = ".agentd/results";
/// Slightly more than the maximum output of code.
const MAX_RESULT_BYTES: usize = 17 << 20;
const MAX_RESULTS: usize = 200;
const MAX_TOTAL_BYTES: u64 = 128 << 20;
/// Less than the maximum length of a line in `read_file`.
const MAX_LINE_CHARACTERS: usize = 2_000;

/// Location of a stored result, and the stored length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// Path in the workspace, as accepted by `read_file`.
    pub path: String,
    /// Number of stored bytes, from the beginning.
    pub bytes: usize,
    pub whole_bytes: usize,
}

pub(super) async fn store_result(
    workspace: &Path,
    quota: &WorkspaceQuota,
    folder: &'static str,
    call_id: &str,
    text: &str,
) -> Result<StoredOutput, ToolError> {
    // Ids increase with time, so the oldest results come first by name.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = call_id.chars().filter(|c| is_plain(*c)).take(100).collect();
    if name.is_empty() {
        return Err(ToolError::Failed("the call has no id under which its result can be stored".to_owned()));
    }
    let (bytes, whole_bytes) = (stored_length(text), text.len());
    let (workspace, content, quota) = (workspace.to_path_buf(), wrap_lines(text), quota.clone());
    let stored = tokio::task::spawn_blocking(move || {
        let (folder, path) = (RelativePath::parse(folder)?, RelativePath::parse_file(&format!("{folder}/{name}.txt"))?);
        let workspace = Workspace::open(&workspace)?;
        workspace.write(&path, content.as_bytes(), &name, &quota)?;
        workspace.prune(&folder, MAX_RESULTS, MAX_TOTAL_BYTES, &quota)?;
        Ok(StoredOutput { path: path.to_string(), bytes, whole_bytes })
    });
    stored.await.map_err(|_| ToolError::Failed("failed to store the result".to_owned()))?
}

fn stored_length(text: &str) -> usize {
    text.floor_char_boundary(MAX_RESULT_BYTES)
}

/// Limits the text to the stored length and breaks lines that `read_file` would truncate.
fn wrap_lines(text: &str) -> String {
    let end = stored_length(text);
    let mut wrap_lines = String::with_capacity(end + 256);
    let mut length = 0;
    for character in text[..end].chars() {
        // `read_file` treats a NUL as the mark of a binary file.
        let character = if character == '\0' { '\u{fffd}' } else { character };
        if character == '\n' {
            length = 0;
        } else if length == MAX_LINE_CHARACTERS {
            wrap_lines.push('\n');
            length = 1;
        } else {
            length += 1;
        }
        wrap_lines.push(character);
    }
    if end < text.len() {
        wrap_lines.push_str(&format!("\n[{} bytes more were not kept]", text.len() - end));
    }
    wrap_lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota() -> WorkspaceQuota {
        WorkspaceQuota::new(|| agentd_sandbox::Policy::default().workspace_bounds())
    }

    #[tokio::test]
    async fn only_the_newest_results_are_retained() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_RESULTS + 5 {
            let stored =
                store_result(folder.path(), &quota(), FOLDER, &format!("call_{number:05}"), "text").await.unwrap();
            assert_eq!(stored.path, format!(".agentd/results/call_{number:05}.txt"));
        }
        let stored = std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count();
        assert_eq!(stored, MAX_RESULTS);
        assert!(!folder.path().join(FOLDER).join("call_00004.txt").exists());
        assert!(folder.path().join(FOLDER).join("call_00005.txt").exists());
    }

    #[tokio::test]
    async fn results_do_not_follow_links_out_of_the_workspace() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".agentd")).unwrap();
        assert!(store_result(folder.path(), &quota(), FOLDER, "call_1", "text").await.is_err());
        std::fs::remove_file(folder.path().join(".agentd")).unwrap();
        std::fs::create_dir(folder.path().join(".agentd")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(FOLDER)).unwrap();
        assert!(store_result(folder.path(), &quota(), FOLDER, "call_1", "text").await.is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        for bad in ["", "../..", "/"] {
            assert!(store_result(folder.path(), &quota(), FOLDER, bad, "text").await.is_err());
        }
    }

    #[test]
    fn long_lines_are_wrapped() {
        let text = wrap_lines(&format!(
            "{}\nshort\n{}",
            "é".repeat(MAX_LINE_CHARACTERS * 2 + 1),
            "x".repeat(MAX_LINE_CHARACTERS)
        ));
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [MAX_LINE_CHARACTERS, MAX_LINE_CHARACTERS, 1, 5, MAX_LINE_CHARACTERS]);
    }
}
