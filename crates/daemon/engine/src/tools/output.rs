//! Results that are too long for a model, kept where it can read them piece by piece.

use std::path::Path;

use super::tool::ToolError;
use crate::workspaces::{RelativePath, Room, Workspace};

/// In the workspace, for results that nobody but the agent and its owner wrote.
pub(super) const FOLDER: &str = ".agentd/results";
/// A little more than code may write.
const MAX_RESULT_BYTES: usize = 17 << 20;
const KEPT_RESULTS: usize = 200;
const KEPT_BYTES: u64 = 128 << 20;
/// Less than what `read_file` shows of a line.
const MAX_LINE_CHARACTERS: usize = 2_000;

/// Where a long result is kept, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// In the workspace, as `read_file` takes it.
    pub path: String,
    /// From its beginning.
    pub bytes: usize,
    pub whole_bytes: usize,
}

pub(super) async fn keep(
    workspace: &Path,
    room: &Room,
    folder: &'static str,
    call_id: &str,
    text: &str,
) -> Result<KeptOutput, ToolError> {
    // Ids rise with time, so the oldest results come first by name.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = call_id.chars().filter(|c| is_plain(*c)).take(100).collect();
    if name.is_empty() {
        return Err(ToolError::Failed("a result is kept under the id of its call, which has none".to_owned()));
    }
    let (bytes, whole_bytes) = (kept_length(text), text.len());
    let (workspace, content, room) = (workspace.to_path_buf(), broken(text), room.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let (folder, path) = (RelativePath::parse(folder)?, RelativePath::parse_file(&format!("{folder}/{name}.txt"))?);
        let workspace = Workspace::open(&workspace)?;
        workspace.write(&path, content.as_bytes(), &name, &room)?;
        workspace.prune(&folder, KEPT_RESULTS, KEPT_BYTES, &room)?;
        Ok(KeptOutput { path: path.to_string(), bytes, whole_bytes })
    });
    kept.await.map_err(|_| ToolError::Failed("the result could not be kept".to_owned()))?
}

fn kept_length(text: &str) -> usize {
    text.floor_char_boundary(MAX_RESULT_BYTES)
}

/// The text with no line longer than what is shown of one, and no longer than what is kept.
fn broken(text: &str) -> String {
    let end = kept_length(text);
    let mut broken = String::with_capacity(end + 256);
    let mut length = 0;
    for character in text[..end].chars() {
        // `read_file` takes a NUL for the mark of a binary file.
        let character = if character == '\0' { '\u{fffd}' } else { character };
        if character == '\n' {
            length = 0;
        } else if length == MAX_LINE_CHARACTERS {
            broken.push('\n');
            length = 1;
        } else {
            length += 1;
        }
        broken.push(character);
    }
    if end < text.len() {
        broken.push_str(&format!("\n[{} bytes more were not kept]", text.len() - end));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::new(|| agentd_sandbox::Policy::default().workspace_bounds())
    }

    #[tokio::test]
    async fn the_newest_results_stay_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..KEPT_RESULTS + 5 {
            let kept = keep(folder.path(), &room(), FOLDER, &format!("call_{number:05}"), "text").await.unwrap();
            assert_eq!(kept.path, format!(".agentd/results/call_{number:05}.txt"));
        }
        let kept = std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count();
        assert_eq!(kept, KEPT_RESULTS);
        assert!(!folder.path().join(FOLDER).join("call_00004.txt").exists());
        assert!(folder.path().join(FOLDER).join("call_00005.txt").exists());
    }

    #[tokio::test]
    async fn a_result_leaves_the_workspace_through_no_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".agentd")).unwrap();
        assert!(keep(folder.path(), &room(), FOLDER, "call_1", "text").await.is_err());
        std::fs::remove_file(folder.path().join(".agentd")).unwrap();
        std::fs::create_dir(folder.path().join(".agentd")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(FOLDER)).unwrap();
        assert!(keep(folder.path(), &room(), FOLDER, "call_1", "text").await.is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        for bad in ["", "../..", "/"] {
            assert!(keep(folder.path(), &room(), FOLDER, bad, "text").await.is_err());
        }
    }

    #[test]
    fn long_lines_are_broken() {
        let text =
            broken(&format!("{}\nshort\n{}", "é".repeat(MAX_LINE_CHARACTERS * 2 + 1), "x".repeat(MAX_LINE_CHARACTERS)));
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [MAX_LINE_CHARACTERS, MAX_LINE_CHARACTERS, 1, 5, MAX_LINE_CHARACTERS]);
    }
}
