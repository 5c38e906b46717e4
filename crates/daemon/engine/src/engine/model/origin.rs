//! Who asked for a turn.

use std::sync::Arc;

/// What kind of thing asked for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginKind {
    /// A message of the owner.
    #[default]
    Chat,
    /// A message that came over a device.
    Device,
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
    const ALL: [Self; 8] = [
        Self::Chat,
        Self::Device,
        Self::Scheduler,
        Self::Webhook,
        Self::Hook,
        Self::Channel,
        Self::Proactive,
        Self::Aside,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
            Self::Webhook => "webhook",
            Self::Hook => "hook",
            Self::Channel => "channel",
            Self::Proactive => "proactive",
            Self::Aside => "aside",
        }
    }

    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).unwrap_or_default()
    }
}

/// Who asked for a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub kind: OriginKind,
    pub job_id: Option<String>,
    pub run_id: Option<String>,
    /// The API key that asked, where one did.
    pub key_id: Option<String>,
}

impl Origin {
    #[must_use]
    pub fn of(kind: OriginKind) -> Self {
        Self { kind, job_id: None, run_id: None, key_id: None }
    }

    /// A message of the owner, sent with this key if it was one.
    #[must_use]
    pub fn chat(key_id: Option<String>) -> Self {
        Self { key_id, ..Self::of(OriginKind::Chat) }
    }

    #[must_use]
    pub fn aside() -> Self {
        Self::of(OriginKind::Aside)
    }

    /// Whose turn it is where several wait for a model: a key, a job, the owner behind the page, else all of a kind.
    #[must_use]
    pub fn client(&self) -> Arc<str> {
        let id = self.key_id.as_deref().or(self.job_id.as_deref());
        id.unwrap_or_else(|| self.kind.as_str()).into()
    }

    /// A run of a job. That it waits was told by the scheduler, when it was planned.
    #[must_use]
    pub fn run(job_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        let (job_id, run_id) = (Some(job_id.into()), Some(run_id.into()));
        Self { job_id, run_id, ..Self::of(OriginKind::Scheduler) }
    }

    /// What began it, as usage is shown by.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self.kind {
            OriginKind::Aside => "api",
            kind => kind.as_str(),
        }
    }
}
