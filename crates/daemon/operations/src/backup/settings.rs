//! Backup settings.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, Section, section_patch};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Schedule of automatic backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupSchedule {
    #[default]
    Off,
    /// Once a day.
    Daily,
}

/// Settings for automatic backups and their storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BackupSettings {
    /// Whether a backup is created every day. Scheduled backups contain no secrets, because no passphrase can be
    /// entered; unreadable files are omitted and counted.
    pub schedule: BackupSchedule,
    /// Hour of the backup in the profile's time zone. After enabling the schedule, the first backup is created soon.
    #[schema(maximum = 23)]
    pub hour: u32,
    /// Number of retained daily backups; older ones are deleted after a new one was created.
    #[schema(minimum = 1, maximum = 30)]
    pub keep: u32,
    /// Maximum total size of all stored backups in MiB. The free space of the disk applies as well.
    #[schema(minimum = 10, maximum = 10_485_760)]
    pub limit_mb: u32,
}

section_patch!(
    /// Any subset of the backup settings; omitted fields keep their values.
    BackupPatch, BackupSettings
);

impl Default for BackupSettings {
    fn default() -> Self {
        Self { schedule: BackupSchedule::Off, hour: 3, keep: 7, limit_mb: 51_200 }
    }
}

impl BackupSettings {
    pub(super) fn limit_bytes(&self) -> u64 {
        u64::from(self.limit_mb) << 20
    }
}

impl Section for BackupSettings {
    const NAME: &'static str = "backup";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = BackupPatch;

    fn validate(&self, _problems: &mut Problems) {}
}
