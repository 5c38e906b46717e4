//! Manifest of an archive, and the rules for names in archives.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use agentd_base::{Secret, Timestamp};
use serde::{Deserialize, Serialize};

pub(super) const FORMAT: &str = "agentd-backup";
/// Version 2 added sparse files, hard links and the list of omitted files.
pub(super) const FORMAT_VERSION: u32 = 2;
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const DATABASE: &str = "database.jsonl";
pub(super) const SECRETS: &str = "secrets.sealed";
pub(super) const CONTENTS: &str = "contents.jsonl";
/// Archived folders of the data directory.
pub(super) const FOLDERS: [&str; 3] = ["agents", "avatars", "recordings"];
/// Maximum folder depth; deeper folders are omitted and reported.
pub(super) const MAX_DEPTH: usize = 100;

/// Name of a stored secret, such as `providers` / `openai`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SecretName {
    pub scope: String,
    pub name: String,
}

/// Secret with its plaintext.
#[derive(Debug, Clone)]
pub(super) struct StoredSecret {
    pub(super) name: SecretName,
    pub(super) secret: Secret,
}

/// First entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub format_version: u32,
    /// Version of the program that created it.
    pub version: String,
    pub created_at: Timestamp,
    /// `sqlite` or `postgres`, for information; the dump can be loaded into both.
    pub database: String,
    /// Whether the archive contains `secrets.sealed`.
    pub has_secrets: bool,
    /// Names of all stored secrets, so that a restore can report which must be entered again.
    pub secrets: Vec<SecretName>,
    #[serde(default)]
    pub left_out: OmittedFiles,
    /// Hash of the database, encrypted with the key of the creating daemon, in hex. It identifies archives of this
    /// daemon. Rows of another daemon could direct a secret to another destination.
    #[serde(default)]
    pub database_mark: Option<String>,
}

/// Files in the archived folders that are not in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OmittedFiles {
    /// Files that could not be read.
    pub unreadable: OmittedList,
    /// Files that are never archived: links out of their workspace, pipes, sockets and devices.
    pub excluded: OmittedList,
}

/// Number of omitted files, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OmittedList {
    pub total: u64,
    pub first: Vec<OmittedPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedPath {
    pub path: String,
    pub reason: String,
}

impl OmittedList {
    /// Maximum number of listed files per reason.
    const MAX_LISTED: usize = 20;
    /// Maximum number of characters of a listed path.
    const MAX_PATH_CHARACTERS: usize = 500;

    pub(super) fn add(&mut self, path: &Path, reason: &str) {
        self.total += 1;
        if self.first.len() < Self::MAX_LISTED {
            let path = display_path(path).chars().take(Self::MAX_PATH_CHARACTERS).collect();
            self.first.push(OmittedPath { path, reason: reason.to_owned() });
        }
    }

    /// Returns the number of files that are counted but not listed.
    #[must_use]
    pub fn unnamed(&self) -> u64 {
        self.total.saturating_sub(self.first.len() as u64)
    }
}

/// Formats the list as part of a sentence.
impl fmt::Display for OmittedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, OmittedPath { path, reason }) in self.first.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}`{}` ({reason})", path.escape_debug())?;
        }
        match self.unnamed() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Line of `contents.jsonl`. Paths that are not UTF-8 are encoded as in [`display_path`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Entry {
    File {
        path: String,
        size: u64,
        sha256: String,
    },
    Folder {
        path: String,
    },
    /// `size` is the real size of the file; `sha256` covers the map of its extents and their data.
    SparseFile {
        path: String,
        size: u64,
        sha256: String,
    },
    Link {
        path: String,
        target: String,
    },
    /// Another name of a file earlier in the archive.
    HardLink {
        path: String,
        target: String,
    },
    End {
        entries: u64,
    },
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    pub created_at: Timestamp,
    pub version: String,
    pub database: String,
    pub rows: u64,
    pub files: u64,
    pub bytes: u64,
    /// Secrets restored from the archive or already present.
    pub secrets_present: Vec<SecretName>,
    /// Secrets of the archive's daemon that this daemon lacks and that must be entered again.
    pub secrets_missing: Vec<SecretName>,
}

/// Encodes a path as text without loss: backslashes are doubled, and bytes that are not UTF-8 become `\xNN`.
pub(super) fn display_path(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Validates a path of the archive and returns it relative to the unpack folder, or describes what is wrong.
pub(super) fn safe_path(bytes: &[u8]) -> Result<PathBuf, String> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let refuse = |why: &str| Err(format!("the name `{}` {why}", display_path(path).escape_debug()));
    if bytes.is_empty() || bytes.contains(&0) {
        return refuse("is empty or contains NUL");
    }
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) if part.len() <= 255 => clean.push(part),
            Component::Normal(_) => return refuse("is too long"),
            _ => return refuse("points outside the archive"),
        }
    }
    // `a//b`, `a/./b` and `a/` are other spellings of the same path; only the canonical one is accepted.
    let is_plain = clean.as_os_str().as_bytes() == bytes.strip_suffix(b"/").unwrap_or(bytes);
    let mut parts = clean.components();
    let first = parts.next().map(|part| part.as_os_str().to_owned()).unwrap_or_default();
    let depth = parts.count();
    let is_known = match first.to_str() {
        Some(MANIFEST | DATABASE | SECRETS | CONTENTS) => depth == 0,
        Some(folder) => FOLDERS.contains(&folder),
        None => false,
    };
    if !is_plain || !is_known {
        return refuse("is not allowed in an archive");
    }
    if depth > MAX_DEPTH {
        return refuse("is nested too deeply");
    }
    Ok(clean)
}

/// Returns what is wrong with a symlink, if anything. A link must be below an agent's folder and stay inside it,
/// whatever other links its target passes through.
pub(super) fn link_fault(path: &Path, target: &Path) -> Option<&'static str> {
    // Folder, agent name, and then the agent's own files.
    let Some(depth) = path.components().count().checked_sub(3) else {
        return Some("is a link where a folder is expected");
    };
    // Upward steps come first. Each further step leads deeper, or through a link that stays inside as well.
    let mut parts = target.components().filter(|part| *part != Component::CurDir).peekable();
    let mut steps_up = 0;
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        steps_up += 1;
    }
    let is_inside = steps_up <= depth && parts.all(|part| matches!(part, Component::Normal(_)));
    (!is_inside).then_some("is a link to a target outside its folder")
}

/// Returns what is wrong with a hard link, if anything. Both names must be in the same agent's folder.
pub(super) fn hard_link_fault(path: &Path, target: &Path) -> Option<&'static str> {
    let folder = |path: &Path| {
        let parts: Vec<_> = path.iter().take(2).map(OsStr::to_owned).collect();
        (path.components().count() > 2).then_some(parts)
    };
    let is_same = folder(path).is_some_and(|own| Some(own) == folder(target));
    (!is_same).then_some("is a hard link to a file outside its folder")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_outside_the_archive_is_rejected() {
        for name in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../agents",
            "agents/../../x",
            "agents/./x",
            "agents//x",
            "./agents",
            "other/x",
            "database.jsonl/x",
            "agents/\0",
            "agentsx",
            "agents/..",
            "Agents/x",
        ] {
            assert!(safe_path(name.as_bytes()).is_err(), "{name:?}");
        }
        assert!(safe_path(format!("agents/{}", "x".repeat(256)).as_bytes()).is_err());
        assert!(safe_path(b"agents/d").is_ok());
        assert!(safe_path(format!("agents{}", "/d".repeat(MAX_DEPTH + 1)).as_bytes()).is_err());
    }

    #[test]
    fn paths_written_by_a_backup_are_accepted() {
        for name in ["manifest.json", "database.jsonl", "agents/", "agents/a b/ü.txt", "avatars/x.png", "agents/..."] {
            assert!(safe_path(name.as_bytes()).is_ok(), "{name:?}");
        }
        assert!(safe_path(b"agents/\xff").is_ok());
    }

    #[test]
    fn link_must_stay_in_its_workspace() {
        let fault = |path: &str, target: &str| link_fault(Path::new(path), Path::new(target));
        for (path, target) in [
            ("agents/ada/link", "notes.txt"),
            ("agents/ada/link", "./deep/er"),
            ("agents/ada/deep/link", "../notes.txt"),
            ("agents/ada/deep/er/link", "../../."),
        ] {
            assert_eq!(fault(path, target), None, "{path} {target}");
        }
        for (path, target) in [
            ("agents", "/"),
            ("agents/ada", "bob"),
            ("agents/ada/link", "/etc"),
            ("agents/ada/link", ".."),
            ("agents/ada/link", "../bob"),
            ("agents/ada/deep/link", "../../ada"),
            ("agents/ada/link", "deep/../../../x"),
            // Through a link to `.`, this target leaves the folder although its text does not.
            ("agents/ada/link", "here/here/../.."),
        ] {
            assert!(fault(path, target).is_some(), "{path} {target}");
        }
    }

    #[test]
    fn hard_link_must_stay_in_its_workspace() {
        let fault = |path: &str, target: &str| hard_link_fault(Path::new(path), Path::new(target));
        assert_eq!(fault("agents/ada/deep/name", "agents/ada/file"), None);
        for (path, target) in [
            ("agents/ada/name", "agents/bob/file"),
            ("agents/ada/name", "database.jsonl"),
            ("agents/ada/name", "agents/ada"),
            ("agents/name", "agents/ada/file"),
            ("agents/ada/name", "avatars/ada/file"),
        ] {
            assert!(fault(path, target).is_some(), "{path} {target}");
        }
    }

    proptest! {
        #[test]
        fn accepted_path_stays_inside(bytes in prop::collection::vec(any::<u8>(), 0..40), inside in any::<bool>()) {
            let name = if inside { [b"agents/".as_slice(), &bytes].concat() } else { bytes };
            if let Ok(path) = safe_path(&name) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(!path.is_absolute());
            }
        }

        #[test]
        fn different_names_are_encoded_differently(
            left in prop::collection::vec(prop::sample::select(vec![b'\\', b'x', b'f', 0xff, b'a', 0xc3, 0xbc]), 0..6),
            right in prop::collection::vec(prop::sample::select(vec![b'\\', b'x', b'f', 0xff, b'a', 0xc3, 0xbc]), 0..6),
        ) {
            let show = |bytes: &[u8]| display_path(Path::new(OsStr::from_bytes(bytes)));
            prop_assert_eq!(left == right, show(&left) == show(&right));
        }
    }
}
