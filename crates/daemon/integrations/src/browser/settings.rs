//! The owner's settings of the browser.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, SafetySetting, Section, SecuritySettings, Strength, section_patch};
use agentd_net::{HostPattern, NetPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which browser is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrowserBackend {
    /// The Chromium of this machine.
    #[default]
    Chromium,
}

/// How the browser runs, what is seen of it, and which addresses its pages may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BrowserSettings {
    pub backend: BrowserBackend,
    /// Without a window. When it changes, the next action starts a new Chromium.
    pub headless: bool,
    /// Whether an action answers with the snapshot after it.
    pub auto_snapshot: bool,
    /// How long after a snapshot of this kind actions come without one: a script that acts quickly is not slowed down.
    #[schema(minimum = 100, maximum = 60_000)]
    pub snapshot_interval_ms: u32,
    /// Frames a second of the stream.
    #[schema(minimum = 1, maximum = 2)]
    pub stream_fps: u32,
    /// Quality of the stream's JPEG frames.
    #[schema(minimum = 1, maximum = 100)]
    pub stream_quality: u32,
    /// Hosts that pages may reach although their address is private or local: `host`, `*.host`, an IP address or a CIDR
    /// block. `security.allowed_hosts` holds as well.
    #[schema(max_items = 500)]
    pub ssrf_allowlist: Vec<String>,
    /// Hosts that pages may never reach; goes before all lists of allowed ones, and so does `security.blocked_hosts`.
    #[schema(max_items = 500)]
    pub ssrf_blocklist: Vec<String>,
}

section_patch!(
    /// Any fields of the browser settings; those left out stay as they are.
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
    /// What pages may reach: by the lists of this section and by those of the security settings.
    pub(super) fn net_policy(&self, security: &SecuritySettings) -> NetPolicy {
        // Stored entries were checked when they came in, so nothing is dropped here.
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
