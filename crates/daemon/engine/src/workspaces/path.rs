//! Relative paths within a workspace, as provided by a model.

use std::fmt;

use rustix::io::Errno;

use super::error::WorkspaceError;

const MAX_PATH_BYTES: usize = 4_096;
const MAX_NAME_BYTES: usize = 255;
/// Maximum nesting depth.
const MAX_NAMES: usize = 64;

/// A path that consists of names only: no `..`, no root, nothing with a special meaning for the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelativePath(Vec<String>);

impl RelativePath {
    /// Parses a path. `.` and empty parts are removed; the empty path is the workspace itself.
    ///
    /// # Errors
    /// A sentence that describes the invalid part.
    pub fn parse(text: &str) -> Result<Self, WorkspaceError> {
        let bad = |problem| Err(WorkspaceError::BadPath { problem });
        if text.len() > MAX_PATH_BYTES {
            return bad("is too long");
        }
        if text.starts_with('/') {
            return bad("must be relative to the workspace, without a leading `/`");
        }
        if text.starts_with("~/") || text == "~" {
            return bad("must be relative to the workspace; `~` is not expanded");
        }
        if text.chars().any(char::is_control) {
            return bad("must not contain control characters");
        }
        let mut names = Vec::new();
        for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
            if name == ".." {
                return bad("must not contain `..`; paths outside the workspace are not accessible");
            }
            if name.len() > MAX_NAME_BYTES {
                return bad("contains a name of more than 255 bytes");
            }
            names.push(name.to_owned());
        }
        if names.len() > MAX_NAMES {
            return bad("is nested too deeply");
        }
        Ok(Self(names))
    }

    /// Variant of [`Self::parse`] for a file: not the workspace itself, no trailing `/`.
    pub fn parse_file(text: &str) -> Result<Self, WorkspaceError> {
        if text.ends_with('/') {
            return Err(WorkspaceError::BadPath { problem: "must name a file, without a trailing `/`" });
        }
        let path = Self::parse(text)?;
        if path.0.is_empty() {
            return Err(WorkspaceError::BadPath { problem: "must name a file" });
        }
        Ok(path)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether `name` is the last name.
    #[must_use]
    pub fn ends_with(&self, name: &str) -> bool {
        self.0.last().is_some_and(|last| last == name)
    }

    /// Whether this path equals `other` or is below it.
    pub(crate) fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns the last name; empty for the workspace itself.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Splits into the folder and the last name; `None` for the workspace itself.
    pub(super) fn split(&self) -> Option<(Self, &str)> {
        let (name, folder) = self.0.split_last()?;
        Some((Self(folder.to_vec()), name))
    }

    /// Appends a name read from a folder; `None` if the path would be too deep.
    pub(super) fn join(&self, name: &str) -> Option<Self> {
        (self.0.len() < MAX_NAMES).then(|| Self([self.0.as_slice(), &[name.to_owned()]].concat()))
    }

    /// Returns the path up to the name at `depth`.
    pub(super) fn up_to(&self, depth: usize) -> String {
        self.0[..self.0.len().min(depth + 1)].join("/")
    }

    pub(super) fn failed(&self, error: Errno) -> WorkspaceError {
        WorkspaceError::Io { path: self.to_string(), source: error.into() }
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first().map(String::as_str) {
            None => f.write_str("."),
            // A leading `~` would be taken for a home folder.
            Some("~") => write!(f, "./{}", self.0.join("/")),
            Some(_) => f.write_str(&self.0.join("/")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equivalent_paths_have_one_spelling() {
        for text in ["a/b", "./a/b", "a//b", "a/./b", "a/b/", "././a/b/."] {
            assert_eq!(RelativePath::parse(text).unwrap().to_string(), "a/b");
        }
        assert_eq!(RelativePath::parse("./~/a").unwrap().to_string(), "./~/a");
        for text in ["", ".", "./", "./."] {
            assert_eq!(RelativePath::parse(text).unwrap(), RelativePath::default());
        }
        for text in ["", ".", "a/", "./"] {
            assert!(RelativePath::parse_file(text).is_err());
        }
    }

    proptest! {
        #[test]
        fn parsed_path_consists_of_names_only(text in "[a./~\\x00-\\x20é]{0,40}") {
            if let Ok(path) = RelativePath::parse(&text) {
                for name in path.names() {
                    prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains('/') && !name.contains('\0'));
                }
                prop_assert_eq!(RelativePath::parse(&path.to_string()).unwrap(), path);
            }
        }
    }
}
