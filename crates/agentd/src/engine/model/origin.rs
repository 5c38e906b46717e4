//! Who asked for a turn.

/// What kind of thing asked for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginKind {
    /// A message of the owner or of a device.
    #[default]
    Chat,
    Scheduler,
    Webhook,
    Hook,
    Channel,
    /// The agent itself, where its owner allows that.
    Proactive,
    /// A question of the daemon itself, beside any conversation. Nobody is told of it.
    Aside,
}

impl OriginKind {
    const ALL: [Self; 7] =
        [Self::Chat, Self::Scheduler, Self::Webhook, Self::Hook, Self::Channel, Self::Proactive, Self::Aside];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Scheduler => "scheduler",
            Self::Webhook => "webhook",
            Self::Hook => "hook",
            Self::Channel => "channel",
            Self::Proactive => "proactive",
            Self::Aside => "aside",
        }
    }

    pub(in crate::engine) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).unwrap_or_default()
    }
}

/// Who asked for a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub kind: OriginKind,
    pub job_id: Option<String>,
    pub run_id: Option<String>,
}

impl Origin {
    #[must_use]
    pub fn of(kind: OriginKind) -> Self {
        Self { kind, job_id: None, run_id: None }
    }

    #[must_use]
    pub fn chat() -> Self {
        Self::of(OriginKind::Chat)
    }

    #[must_use]
    pub fn aside() -> Self {
        Self::of(OriginKind::Aside)
    }

    /// A run of a job. That it waits was told by the scheduler, when it was planned.
    #[must_use]
    pub fn run(job_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self { kind: OriginKind::Scheduler, job_id: Some(job_id.into()), run_id: Some(run_id.into()) }
    }
}
