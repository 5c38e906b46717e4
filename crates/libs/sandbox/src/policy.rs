//! Sandbox policy, configured by the owner.

use std::fmt;
use std::path::{Path, PathBuf};

use agentd_base::FieldProblem;
use serde::{Deserialize, Serialize};

/// Configured sandbox backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// First of bubblewrap and Landlock that passes its canary on this machine.
    #[default]
    Auto,
    Bubblewrap,
    Landlock,
    /// No sandbox. Limits are enforced as far as possible.
    None,
}

/// Sandbox tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Separate namespaces, a separate root, and a seccomp filter.
    Bubblewrap,
    /// Landlock rules for files and a stricter seccomp filter; no namespaces.
    Landlock,
    None,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}

/// Maximum of [`Policy::timeout_seconds`].
pub const MAX_TIMEOUT_SECONDS: u64 = 3600;
/// Minimum memory in which an interpreter starts.
pub const MIN_MEMORY_MB: u64 = 32;
/// Maximum of [`Policy::memory_limit_mb`].
pub const MAX_MEMORY_MB: u64 = 65_536;
/// Range of [`Policy::workspace_limit_mb`].
const WORKSPACE_MB: std::ops::RangeInclusive<u64> = 16..=1_048_576;
/// Range of [`Policy::workspace_max_files`].
const WORKSPACE_FILES: std::ops::RangeInclusive<u64> = 100..=10_000_000;
/// Maximum number of names and of paths in a policy.
pub const MAX_ENTRIES: usize = 64;
/// Directories that contain no files for code to change.
const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Sandbox policy, applied to every run that starts after it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub backend: Backend,
    /// Whether a run that requests the network gets the filtering proxy.
    pub network: bool,
    /// Maximum duration of a run in seconds; a request can only lower it.
    pub timeout_seconds: u64,
    /// Memory limit of all processes of a run in MB; a request can only lower it.
    pub memory_limit_mb: u64,
    /// Maximum size of a request's workspace in MB, by the larger of length and disk usage of each file.
    pub workspace_limit_mb: u64,
    /// Maximum number of files and folders in a workspace.
    pub workspace_max_files: u64,
    /// Environment variables of the daemon that are inherited by programs.
    pub env_allowlist: Vec<String>,
    /// Directories writable by every run, in addition to those of its request.
    pub writable_paths: Vec<PathBuf>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            network: false,
            timeout_seconds: 60,
            memory_limit_mb: 512,
            workspace_limit_mb: 4_096,
            workspace_max_files: 100_000,
            env_allowlist: ["LANG", "LC_ALL", "LC_CTYPE", "TZ"].map(str::to_owned).to_vec(),
            writable_paths: Vec::new(),
        }
    }
}

/// Limits of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceBounds {
    pub bytes: u64,
    pub files: u64,
}

impl Policy {
    #[must_use]
    pub fn workspace_bounds(&self) -> WorkspaceBounds {
        WorkspaceBounds { bytes: self.workspace_limit_mb.saturating_mul(1 << 20), files: self.workspace_max_files }
    }

    /// Returns all validation errors, for storing policies. The existence of paths is not checked, since it can change
    /// at any time; runs continue without missing ones.
    #[must_use]
    pub fn problems(&self) -> Vec<FieldProblem> {
        let mut problems = agentd_base::Problems::new();
        problems.require(
            (1..=MAX_TIMEOUT_SECONDS).contains(&self.timeout_seconds),
            "timeout_seconds",
            format!("must be between 1 and {MAX_TIMEOUT_SECONDS}"),
        );
        problems.require(
            (MIN_MEMORY_MB..=MAX_MEMORY_MB).contains(&self.memory_limit_mb),
            "memory_limit_mb",
            format!("must be between {MIN_MEMORY_MB} and {MAX_MEMORY_MB}"),
        );
        for (field, value, range) in [
            ("workspace_limit_mb", self.workspace_limit_mb, WORKSPACE_MB),
            ("workspace_max_files", self.workspace_max_files, WORKSPACE_FILES),
        ] {
            let message = format!("must be between {} and {}", range.start(), range.end());
            problems.require(range.contains(&value), field, message);
        }
        for (field, length) in
            [("env_allowlist", self.env_allowlist.len()), ("writable_paths", self.writable_paths.len())]
        {
            problems.require(length <= MAX_ENTRIES, field, format!("must have at most {MAX_ENTRIES} entries"));
        }
        for (index, name) in self.env_allowlist.iter().enumerate() {
            problems.require(
                is_variable_name(name),
                &format!("env_allowlist[{index}]"),
                "must be a name of letters, digits and underscores that does not start with a digit",
            );
            problems.require(
                !is_reserved_variable(name),
                &format!("env_allowlist[{index}]"),
                "must not start with SVC_: such variables configure the daemon and may contain secrets",
            );
        }
        for (index, path) in self.writable_paths.iter().enumerate() {
            let plain = path.is_absolute() && !path.components().any(|part| part == std::path::Component::ParentDir);
            let field = format!("writable_paths[{index}]");
            problems.require(plain, &field, "must be an absolute path without `..`");
            let is_system = KERNEL_FOLDERS.iter().any(|folder| path.starts_with(folder));
            problems.require(
                path.components().ne(Path::new("/").components()) && !is_system,
                &field,
                "must not be `/` or inside /proc, /sys or /dev",
            );
        }
        problems.into_result().err().unwrap_or_default()
    }
}

/// Whether a variable configures the daemon and is therefore never inherited.
pub(crate) fn is_reserved_variable(name: &str) -> bool {
    name.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("SVC_"))
}

fn is_variable_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_policy_is_valid_and_denies_the_network() {
        assert_eq!(Policy::default().problems(), []);
        assert!(!Policy::default().network);
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        let policy = Policy {
            timeout_seconds: 0,
            memory_limit_mb: 1,
            workspace_limit_mb: 15,
            workspace_max_files: 10_000_001,
            env_allowlist: vec!["GOOD_1".into(), "1BAD".into(), "A=B".into(), "SVC_DATABASE_URL".into()],
            writable_paths: vec!["/srv/data".into(), "relative".into(), "/srv/../etc".into()],
            ..Policy::default()
        };
        let fields: Vec<String> = policy.problems().into_iter().map(|problem| problem.field).collect();
        assert_eq!(
            fields,
            [
                "timeout_seconds",
                "memory_limit_mb",
                "workspace_limit_mb",
                "workspace_max_files",
                "env_allowlist[1]",
                "env_allowlist[2]",
                "env_allowlist[3]",
                "writable_paths[1]",
                "writable_paths[2]"
            ]
        );
    }

    #[test]
    fn policy_round_trips_and_rejects_unknown_fields() {
        let text = serde_json::to_string(&Policy::default()).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), Policy::default());
        assert!(serde_json::from_str::<Policy>(r#"{"netwrok":true}"#).is_err());
    }
}
