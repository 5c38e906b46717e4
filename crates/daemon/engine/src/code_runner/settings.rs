//! Sandbox settings.

use std::path::PathBuf;

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, SafetySetting, Section, Strength, section_patch};
use agentd_sandbox::{Backend, Policy, WorkspaceBounds};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Sandbox backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxBackend {
    /// The first of `bubblewrap` and `landlock` that passes its test on this machine.
    #[default]
    Auto,
    Bubblewrap,
    Landlock,
    /// No sandbox: code runs with the permissions of the daemon.
    None,
}

impl From<SandboxBackend> for Backend {
    fn from(backend: SandboxBackend) -> Self {
        match backend {
            SandboxBackend::Auto => Self::Auto,
            SandboxBackend::Bubblewrap => Self::Bubblewrap,
            SandboxBackend::Landlock => Self::Landlock,
            SandboxBackend::None => Self::None,
        }
    }
}

/// Permissions and limits of code that agents and hooks run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SandboxSettings {
    /// Sandbox backend. Default: `auto`.
    pub backend: SandboxBackend,
    /// Whether code may access the network, through a proxy that enforces the network rules for agents. Default: false.
    pub network: bool,
    /// Maximum duration of a run in seconds, 1 to 3,600. Default: 60.
    #[schema(minimum = 1, maximum = 3_600)]
    pub timeout_seconds: u32,
    /// Memory limit for all processes of a run together in MiB, 32 to 65,536. Default: 512.
    #[schema(minimum = 32, maximum = 65_536)]
    pub memory_limit_mb: u32,
    /// Maximum size of an agent's workspace in MiB, 16 to 1,048,576. Each file counts with its length or its disk
    /// usage, whichever is larger. A workspace above the limit can only shrink. Default: 4,096.
    #[schema(minimum = 16, maximum = 1_048_576)]
    pub workspace_limit_mb: u32,
    /// Maximum number of files and folders in an agent's workspace, 100 to 10,000,000. Default: 100,000.
    #[schema(minimum = 100, maximum = 10_000_000)]
    pub workspace_max_files: u32,
    /// Names of environment variables of the daemon that are passed to code, up to 64; names that start with `SVC_` are
    /// rejected. Default: `LANG`, `LC_ALL`, `LC_CTYPE` and `TZ`.
    #[schema(max_items = 64)]
    pub env_allowlist: Vec<String>,
    /// Absolute paths of folders that code may modify in addition to the agent's workspace, up to 64. Default: none.
    #[schema(max_items = 64)]
    pub writable_paths: Vec<String>,
}

section_patch!(
    /// Changes to the sandbox settings; absent fields keep their values.
    SandboxPatch, SandboxSettings
);

impl Default for SandboxSettings {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            backend: SandboxBackend::Auto,
            network: policy.network,
            timeout_seconds: u32::try_from(policy.timeout_seconds).unwrap_or(60),
            memory_limit_mb: u32::try_from(policy.memory_limit_mb).unwrap_or(512),
            workspace_limit_mb: u32::try_from(policy.workspace_limit_mb).unwrap_or(4_096),
            workspace_max_files: u32::try_from(policy.workspace_max_files).unwrap_or(100_000),
            env_allowlist: policy.env_allowlist,
            writable_paths: Vec::new(),
        }
    }
}

impl SandboxSettings {
    pub(crate) fn workspace_bounds(&self) -> WorkspaceBounds {
        self.policy().workspace_bounds()
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            backend: self.backend.into(),
            network: self.network,
            timeout_seconds: self.timeout_seconds.into(),
            memory_limit_mb: self.memory_limit_mb.into(),
            workspace_limit_mb: self.workspace_limit_mb.into(),
            workspace_max_files: self.workspace_max_files.into(),
            env_allowlist: self.env_allowlist.clone(),
            writable_paths: self.writable_paths.iter().map(PathBuf::from).collect(),
        }
    }
}

impl Section for SandboxSettings {
    const NAME: &'static str = "sandbox";
    const RESET: ResetGroup = ResetGroup::Never;
    const SAFETY: &'static [SafetySetting] = &[
        SafetySetting {
            path: "backend",
            strength: Strength::Ranked(&[&["auto", "bubblewrap"], &["landlock"], &["none"]]),
            effect: "Code of agents and hooks may run with less isolation, with `none` without a sandbox.",
        },
        SafetySetting {
            path: "network",
            strength: Strength::LowerIsStronger,
            effect: "Code of agents and hooks may access the network.",
        },
        SafetySetting {
            path: "timeout_seconds",
            strength: Strength::LowerIsStronger,
            effect: "Code may run for longer.",
        },
        SafetySetting {
            path: "memory_limit_mb",
            strength: Strength::LowerIsStronger,
            effect: "Code may use more memory.",
        },
        SafetySetting {
            path: "workspace_limit_mb",
            strength: Strength::LowerIsStronger,
            effect: "Workspaces may use more disk space.",
        },
        SafetySetting {
            path: "workspace_max_files",
            strength: Strength::LowerIsStronger,
            effect: "Workspaces may contain more files.",
        },
        SafetySetting {
            path: "env_allowlist",
            strength: Strength::Permissions,
            effect: "Code may read the added environment variables.",
        },
        SafetySetting {
            path: "writable_paths",
            strength: Strength::Permissions,
            effect: "Code may modify the added folders.",
        },
    ];
    type Patch = SandboxPatch;

    fn validate(&self, problems: &mut Problems) {
        for problem in self.policy().problems() {
            problems.add(problem.field, problem.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_sandbox_setting_is_a_safety_setting() {
        let fields = serde_json::to_value(SandboxSettings::default()).unwrap();
        let fields: BTreeSet<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        let listed: BTreeSet<&str> = SandboxSettings::SAFETY.iter().map(|setting| setting.path).collect();
        assert_eq!(listed, fields);
    }
}
