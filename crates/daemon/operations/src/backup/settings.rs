//! Backup settings.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, Section, section_patch};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Schedule of automatic backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupSchedule {
    /// No automatic backups.
    #[default]
    Off,
    /// Once a day.
    Daily,
}

/// Settings for automatic backups and their storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BackupSettings {
    /// Schedule of automatic backups. They contain no secrets, because no passphrase can be entered; unreadable files
    /// are omitted and counted. Default: `off`.
    pub schedule: BackupSchedule,
    /// Hour of the backup in the time zone of the profile, 0 to 23. After enabling the schedule, the first backup is
    /// created soon. Default: 3.
    #[schema(maximum = 23)]
    pub hour: u32,
    /// Number of retained daily backups, 1 to 30; older ones are deleted after a new one was created. Default: 7.
    #[schema(minimum = 1, maximum = 30)]
    pub keep: u32,
    /// Maximum total size of all stored backups in MiB, 10 to 10,485,760. The free space of the disk applies as well.
    /// Default: 51,200.
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
