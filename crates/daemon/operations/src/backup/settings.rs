//! The owner's settings of backups.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, Section, section_patch};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the daemon makes backups by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupSchedule {
    #[default]
    Off,
    /// Once a day.
    Daily,
}

/// When backups are made, and how much room they may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BackupSettings {
    /// Whether a backup is made every day. It holds no secrets, since nobody is there to enter a passphrase; files that
    /// cannot be read are left out and counted.
    pub schedule: BackupSchedule,
    /// At which hour, in the time zone of the profile. The first one is made soon after it is turned on.
    #[schema(maximum = 23)]
    pub hour: u32,
    /// How many daily backups are kept; older ones are deleted once a new one is there.
    #[schema(minimum = 1, maximum = 30)]
    pub keep: u32,
    /// How much all backups that the daemon keeps may take together. The limit of the disk holds as well.
    #[schema(minimum = 10, maximum = 10_485_760)]
    pub limit_mb: u32,
}

section_patch!(
    /// Any fields of the backup settings; those left out stay as they are.
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
