//! Browser settings.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, SafetySetting, Section, SecuritySettings, Strength, section_patch};
use agentd_net::{HostPattern, NetPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Browser backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrowserBackend {
    /// Chromium installed on this machine.
    #[default]
    Chromium,
}

/// Settings for the browser and for the addresses its pages may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BrowserSettings {
    /// Browser that runs the pages. Default: `chromium`.
    pub backend: BrowserBackend,
    /// Whether Chromium runs without a window. Default: true. After a change, the next action starts a new Chromium.
    pub headless: bool,
    /// Whether actions return a snapshot of the page. Default: false.
    pub auto_snapshot: bool,
    /// Minimum interval between automatic snapshots in milliseconds, 100 to 60,000, so that fast scripts are not slowed
    /// down. Default: 1,000.
    #[schema(minimum = 100, maximum = 60_000)]
    pub snapshot_interval_ms: u32,
    /// Maximum number of stream frames per second, 1 or 2. Default: 1.
    #[schema(minimum = 1, maximum = 2)]
    pub stream_fps: u32,
    /// JPEG quality of stream frames, 1 to 100. Default: 60.
    #[schema(minimum = 1, maximum = 100)]
    pub stream_quality: u32,
    /// Hosts with private or local addresses that pages may reach, at most 500: `host`, `*.host`, an IP address or a
    /// CIDR block. `security.allowed_hosts` applies as well. Default: none.
    #[schema(max_items = 500)]
    pub ssrf_allowlist: Vec<String>,
    /// Hosts that pages must not reach, at most 500. Takes precedence over all allow lists, as does
    /// `security.blocked_hosts`. Default: none.
    #[schema(max_items = 500)]
    pub ssrf_blocklist: Vec<String>,
}

section_patch!(
    /// Any subset of the browser settings; omitted fields keep their values.
    BrowserPatch, BrowserSettings
);

impl Default for BrowserSettings {
    fn default() -> Self {
        Self {
            backend: BrowserBackend::default(),
            headless: true,
            auto_snapshot: false,
            snapshot_interval_ms: 1_000,
            stream_fps: 1,
            stream_quality: 60,
            ssrf_allowlist: Vec::new(),
            ssrf_blocklist: Vec::new(),
        }
    }
}

impl BrowserSettings {
    /// Returns the network policy of pages, combined from this section and the security settings.
    pub(super) fn net_policy(&self, security: &SecuritySettings) -> NetPolicy {
        // Stored entries were validated, so none is dropped here.
        let patterns = |list: &[String]| list.iter().filter_map(|entry| entry.parse().ok()).collect::<Vec<_>>();
        let mut policy = security.net_policy();
        policy.allowed_hosts.extend(patterns(&self.ssrf_allowlist));
        policy.blocked_hosts.extend(patterns(&self.ssrf_blocklist));
        policy
    }
}

impl Section for BrowserSettings {
    const NAME: &'static str = "browser";
    const RESET: ResetGroup = ResetGroup::General;
    const SAFETY: &'static [SafetySetting] = &[
        SafetySetting {
            path: "ssrf_allowlist",
            strength: Strength::Permissions,
            effect: "Pages may reach the added private or local addresses.",
        },
        SafetySetting {
            path: "ssrf_blocklist",
            strength: Strength::Restrictions,
            effect: "Pages may reach hosts that are no longer listed.",
        },
    ];
    type Patch = BrowserPatch;

    fn normalize(&mut self) {
        for entry in self.ssrf_allowlist.iter_mut().chain(&mut self.ssrf_blocklist) {
            if let Ok(pattern) = entry.parse::<HostPattern>() {
                *entry = pattern.to_string();
            }
        }
    }

    fn validate(&self, problems: &mut Problems) {
        for (field, list) in [("ssrf_allowlist", &self.ssrf_allowlist), ("ssrf_blocklist", &self.ssrf_blocklist)] {
            for (index, entry) in list.iter().enumerate() {
                if let Err(error) = entry.parse::<HostPattern>() {
                    problems.add(format!("{field}[{index}]"), error.to_string());
                }
            }
        }
    }
}
