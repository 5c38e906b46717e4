//! Categories of events.

/// Category of an event: the part of its name before the first dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Task,
    Project,
    Memory,
    Channel,
    Scheduler,
    Webhook,
    Alert,
    Approval,
    Backup,
}

impl Category {
    /// All categories, in display order.
    pub const ALL: [Self; 9] = [
        Self::Task,
        Self::Project,
        Self::Memory,
        Self::Channel,
        Self::Scheduler,
        Self::Webhook,
        Self::Alert,
        Self::Approval,
        Self::Backup,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Project => "project",
            Self::Memory => "memory",
            Self::Channel => "channel",
            Self::Scheduler => "scheduler",
            Self::Webhook => "webhook",
            Self::Alert => "alert",
            Self::Approval => "approval",
            Self::Backup => "backup",
        }
    }
}
