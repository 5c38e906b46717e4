//! Security settings: sessions, logins, approvals and network access.

use agentd_base::Problems;
use agentd_net::{HostPattern, NetPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::patch::section_patch;
use crate::settings::safety::{SafetySetting, Strength};
use crate::settings::section::{ResetGroup, Section};

/// Maximum length of a tool's name.
const MAX_TOOL_NAME: usize = 64;

/// Handling of tools in an autonomous turn after untrusted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterUntrustedText {
    /// Tools that run code, send data to external services or make lasting changes require approval.
    #[default]
    Ask,
    /// Tools run as if the turn contained only trusted text.
    Allow,
}

/// Sessions, logins, approvals and network access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SecuritySettings {
    /// Lifetime of new login sessions in seconds, 60 to 31,536,000 (one year). Default: 86,400 (one day).
    #[schema(minimum = 60, maximum = 31_536_000)]
    pub session_ttl_seconds: u32,
    /// Number of wrong passwords for one user from one address within `login_window_seconds` before attempts are
    /// delayed, 1 to 1,000. Each further failure doubles the delay, from one second up to a minute. Default: 5.
    #[schema(minimum = 1, maximum = 1000)]
    pub login_max_failures: u32,
    /// Time in seconds for which a wrong password counts, 10 to 86,400. Default: 900.
    #[schema(minimum = 10, maximum = 86_400)]
    pub login_window_seconds: u32,
    /// Names of tools that always require approval, at most 200; a trailing `*` matches any suffix. Default: none.
    #[schema(max_items = 200)]
    pub approval_tools: Vec<String>,
    /// Whether turns with untrusted text (web pages, tool servers, devices, unknown senders, payloads of hooks and
    /// webhooks) require approval to run code, send data to external services or make lasting changes, even in
    /// autonomous conversations. Reading, searching and writing in the workspace are not affected. Default: `ask`.
    pub after_untrusted_text: AfterUntrustedText,
    /// Private or local hosts that may be accessed, at most 500: `host`, `*.host`, an IP address or a CIDR block.
    /// Default: none.
    #[schema(max_items = 500)]
    pub allowed_hosts: Vec<String>,
    /// Hosts that may never be accessed, at most 500. Takes precedence over `allowed_hosts`. Default: none.
    #[schema(max_items = 500)]
    pub blocked_hosts: Vec<String>,
    /// Whether hooks may access private and loopback addresses that the owner configured. Default: true.
    pub private_hook_targets: bool,
    /// Time in seconds that an action waits for approval, 1 to 2,592,000 (30 days). Default: 3,600.
    #[schema(minimum = 1, maximum = 2_592_000)]
    pub approval_ttl_seconds: u32,
}

section_patch!(
    /// Fields of the security settings to change; omitted fields are unchanged.
    SecurityPatch, SecuritySettings
);

impl Default for SecuritySettings {
    fn default() -> Self {
        Self {
            session_ttl_seconds: 24 * 60 * 60,
            login_max_failures: 5,
            login_window_seconds: 15 * 60,
            approval_tools: Vec::new(),
            after_untrusted_text: AfterUntrustedText::default(),
            allowed_hosts: Vec::new(),
            blocked_hosts: Vec::new(),
            private_hook_targets: true,
            approval_ttl_seconds: 60 * 60,
        }
    }
}

impl SecuritySettings {
    /// Returns the network policy of both host lists.
    #[must_use]
    pub fn net_policy(&self) -> NetPolicy {
        // Stored entries were validated, so all of them parse.
        let patterns = |list: &[String]| list.iter().filter_map(|entry| entry.parse().ok()).collect();
        NetPolicy { allowed_hosts: patterns(&self.allowed_hosts), blocked_hosts: patterns(&self.blocked_hosts) }
    }
}

impl Section for SecuritySettings {
    const NAME: &'static str = "security";
    const RESET: ResetGroup = ResetGroup::Security;
    const SAFETY: &'static [SafetySetting] = &[
        SafetySetting {
            path: "session_ttl_seconds",
            strength: Strength::LowerIsStronger,
            effect: "Sign-ins stay valid for longer.",
        },
        SafetySetting {
            path: "login_max_failures",
            strength: Strength::LowerIsStronger,
            effect: "More wrong passwords are accepted before sign-in is delayed.",
        },
        SafetySetting {
            path: "login_window_seconds",
            strength: Strength::HigherIsStronger,
            effect: "Wrong passwords are forgotten sooner.",
        },
        SafetySetting {
            path: "approval_tools",
            strength: Strength::Restrictions,
            effect: "Tools that are no longer listed may run without approval.",
        },
        SafetySetting {
            path: "allowed_hosts",
            strength: Strength::Permissions,
            effect: "Agents and pages may reach the added private or local addresses.",
        },
        SafetySetting {
            path: "blocked_hosts",
            strength: Strength::Restrictions,
            effect: "Hosts that are no longer listed may be reached.",
        },
        SafetySetting {
            path: "private_hook_targets",
            strength: Strength::LowerIsStronger,
            effect: "Hooks may reach private and loopback addresses.",
        },
        SafetySetting {
            path: "approval_ttl_seconds",
            strength: Strength::LowerIsStronger,
            effect: "Approval requests stay open for longer.",
        },
        SafetySetting {
            path: "after_untrusted_text",
            strength: Strength::Ranked(&[&["ask"], &["allow"]]),
            effect: "Agents act on text from web pages and tool servers without approval.",
        },
    ];
    type Patch = SecurityPatch;

    fn normalize(&mut self) {
        for list in [&mut self.allowed_hosts, &mut self.blocked_hosts] {
            for entry in list {
                if let Ok(pattern) = entry.parse::<HostPattern>() {
                    *entry = pattern.to_string();
                }
            }
        }
    }

    fn validate(&self, problems: &mut Problems) {
        for (field, list) in [("allowed_hosts", &self.allowed_hosts), ("blocked_hosts", &self.blocked_hosts)] {
            for (index, entry) in list.iter().enumerate() {
                if let Err(error) = entry.parse::<HostPattern>() {
                    problems.add(format!("{field}[{index}]"), error.to_string());
                }
            }
        }
        for (index, tool) in self.approval_tools.iter().enumerate() {
            let name = tool.strip_suffix('*').unwrap_or(tool);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            problems.require(
                (1..=MAX_TOOL_NAME).contains(&tool.len()) && name.bytes().all(is_plain),
                &format!("approval_tools[{index}]"),
                "must be the name of a tool: 1 to 64 letters, digits, `-` or `_`, and `*` only at the end",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_security_setting_is_a_safety_setting() {
        let fields = serde_json::to_value(SecuritySettings::default()).unwrap();
        let fields: BTreeSet<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        let listed: BTreeSet<&str> = SecuritySettings::SAFETY.iter().map(|setting| setting.path).collect();
        assert_eq!(listed, fields);
    }
}
