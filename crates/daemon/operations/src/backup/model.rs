//! What an archive says of itself, and the rules for the names in it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use agentd_base::{Secret, Timestamp};
use serde::{Deserialize, Serialize};

pub(super) const FORMAT: &str = "agentd-backup";
/// Since 2: files with holes, files with several names, and what was left out.
pub(super) const FORMAT_VERSION: u32 = 2;
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const DATABASE: &str = "database.jsonl";
pub(super) const SECRETS: &str = "secrets.sealed";
pub(super) const CONTENTS: &str = "contents.jsonl";
/// What travels besides the database.
pub(super) const FOLDERS: [&str; 3] = ["agents", "avatars", "recordings"];
/// Folders deeper than this are left out, and said to be.
pub(super) const MAX_DEPTH: usize = 100;

/// The name of a stored secret, such as `providers` / `openai`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SecretName {
    pub scope: String,
    pub name: String,
}

/// A secret with its plaintext.
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
    /// Of the program that made it.
    pub version: String,
    pub created_at: Timestamp,
    /// `sqlite` or `postgres`; for people, the dump fits both.
    pub database: String,
    /// Whether `secrets.sealed` is in it.
    pub has_secrets: bool,
    /// What was stored as a secret, so that a restore can say what must be entered again.
    pub secrets: Vec<SecretName>,
    #[serde(default)]
    pub left_out: LeftOut,
    /// The hash of the database, sealed with the key of the daemon that made it, in hex: so that this daemon knows its
    /// own archives. Rows of another one may say that a secret is to be sent elsewhere.
    #[serde(default)]
    pub database_mark: Option<String>,
}

/// What lies in the folders and is not in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// What belongs into it and could not be read.
    pub unreadable: LeftOutList,
    /// What no archive carries: links that lead out of their workspace, pipes, sockets, devices.
    pub excluded: LeftOutList,
}

/// How much, and the first of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOutList {
    pub total: u64,
    pub first: Vec<LeftOutPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutPath {
    pub path: String,
    pub reason: String,
}

impl LeftOutList {
    /// Of each kind so many are named.
    const NAMED: usize = 20;
    /// Of each name so much is shown.
    const SHOWN_CHARACTERS: usize = 500;

    pub(super) fn add(&mut self, path: &Path, reason: &str) {
        self.total += 1;
        if self.first.len() < Self::NAMED {
            let path = shown(path).chars().take(Self::SHOWN_CHARACTERS).collect();
            self.first.push(LeftOutPath { path, reason: reason.to_owned() });
        }
    }

    /// Those that are counted and not named.
    #[must_use]
    pub fn unnamed(&self) -> u64 {
        self.total.saturating_sub(self.first.len() as u64)
    }
}

/// As one sentence's part.
impl fmt::Display for LeftOutList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LeftOutPath { path, reason }) in self.first.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}`{}` ({reason})", path.escape_debug())?;
        }
        match self.unnamed() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A line of `contents.jsonl`. Paths that are no UTF-8 are written as [`shown`] does.
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
    /// `size` is how long the file is, `sha256` that of the map of its extents and what is in them.
    SparseFile {
        path: String,
        size: u64,
        sha256: String,
    },
    Link {
        path: String,
        target: String,
    },
    /// One more name of a file that is in the archive before it.
    HardLink {
        path: String,
        target: String,
    },
    End {
        entries: u64,
    },
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    pub created_at: Timestamp,
    pub version: String,
    pub database: String,
    pub rows: u64,
    pub files: u64,
    pub bytes: u64,
    /// Secrets that came out of the archive, or were here already.
    pub secrets_present: Vec<SecretName>,
    /// Secrets that the archive's daemon had and this one does not: to be entered again.
    pub secrets_missing: Vec<SecretName>,
}

/// A path as text, without loss: a backslash is doubled, a byte that is no UTF-8 is `\xNN`.
pub(super) fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A path of the archive as one below the folder that it is unpacked in, or what is wrong with it.
pub(super) fn safe_path(bytes: &[u8]) -> Result<PathBuf, String> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let refuse = |why: &str| Err(format!("the name `{}` {why}", shown(path).escape_debug()));
    if bytes.is_empty() || bytes.contains(&0) {
        return refuse("is no name");
    }
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) if part.len() <= 255 => clean.push(part),
            Component::Normal(_) => return refuse("is too long"),
            _ => return refuse("leads out of the archive"),
        }
    }
    // `a//b`, `a/./b` and `a/` name the same thing in another way: only one of them is ours.
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
        return refuse("does not belong into an archive");
    }
    if depth > MAX_DEPTH {
        return refuse("is too deep");
    }
    Ok(clean)
}

/// What is wrong with a symlink, if anything is: a link stands below the folder of an agent and stays
/// inside it, whatever other links its target leads through.
pub(super) fn fault_of_link(path: &Path, target: &Path) -> Option<&'static str> {
    // Folder, name, and then what is the agent's own.
    let Some(depth) = path.components().count().checked_sub(3) else {
        return Some("is a link where a folder belongs");
    };
    // Steps up come first. Then each further step leads deeper, or through a link that stays inside too.
    let mut parts = target.components().filter(|part| *part != Component::CurDir).peekable();
    let mut steps_up = 0;
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        steps_up += 1;
    }
    let is_inside = steps_up <= depth && parts.all(|part| matches!(part, Component::Normal(_)));
    (!is_inside).then_some("is a link that leads out of its folder")
}

/// What is wrong with one more name of a file, if anything is: both lie in the same agent's folder.
pub(super) fn fault_of_hard_link(path: &Path, target: &Path) -> Option<&'static str> {
    let folder = |path: &Path| {
        let parts: Vec<_> = path.iter().take(2).map(OsStr::to_owned).collect();
        (path.components().count() > 2).then_some(parts)
    };
    let is_same = folder(path).is_some_and(|own| Some(own) == folder(target));
    (!is_same).then_some("is a name of a file outside of its folder")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_every_way_out() {
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
    fn takes_what_a_backup_writes() {
        for name in ["manifest.json", "database.jsonl", "agents/", "agents/a b/ü.txt", "avatars/x.png", "agents/..."] {
            assert!(safe_path(name.as_bytes()).is_ok(), "{name:?}");
        }
        assert!(safe_path(b"agents/\xff").is_ok());
    }

    #[test]
    fn links_stay_where_they_are() {
        let fault = |path: &str, target: &str| fault_of_link(Path::new(path), Path::new(target));
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
            // Through a link to `.`, this leads out although its text does not.
            ("agents/ada/link", "here/here/../.."),
        ] {
            assert!(fault(path, target).is_some(), "{path} {target}");
        }
    }

    #[test]
    fn a_file_has_its_names_in_one_workspace() {
        let fault = |path: &str, target: &str| fault_of_hard_link(Path::new(path), Path::new(target));
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
        fn what_is_taken_stays_inside(bytes in prop::collection::vec(any::<u8>(), 0..40), inside in any::<bool>()) {
            let name = if inside { [b"agents/".as_slice(), &bytes].concat() } else { bytes };
            if let Ok(path) = safe_path(&name) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(!path.is_absolute());
            }
        }

        #[test]
        fn different_names_are_shown_differently(
            left in prop::collection::vec(prop::sample::select(vec![b'\\', b'x', b'f', 0xff, b'a', 0xc3, 0xbc]), 0..6),
            right in prop::collection::vec(prop::sample::select(vec![b'\\', b'x', b'f', 0xff, b'a', 0xc3, 0xbc]), 0..6),
        ) {
            let show = |bytes: &[u8]| shown(Path::new(OsStr::from_bytes(bytes)));
            prop_assert_eq!(left == right, show(&left) == show(&right));
        }
    }
}
