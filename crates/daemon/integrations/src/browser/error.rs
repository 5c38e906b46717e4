//! Errors of the browser.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_browser::VideoError;
use agentd_core::vault::VaultError;
use agentd_engine::agents::AgentError;
use agentd_net::NetError;
use agentd_store::StoreError;

use super::model::MAX_RECORDINGS;

#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error("no page is open; open one with POST /api/browser/action and `goto`")]
    NotRunning,
    #[error("viewer limit reached ({limit}); close a client of the stream first")]
    TooManyViewers { limit: usize },
    #[error("another video is being encoded; retry when it is complete")]
    VideoInProgress,
    #[error(transparent)]
    Video(VideoError),
    #[error("no video was created because the daemon is shutting down")]
    ShuttingDown,
    #[error("the request is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("{0} (`ssrf_allowlist` and `ssrf_blocklist` of the browser settings apply as well)")]
    Refused(NetError),
    #[error("failed to start the proxy of the browser: {0}")]
    Proxy(#[from] agentd_net::ProxyError),
    #[error("file rejected: {0}")]
    File(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("login state `{0}` not found; list login states with GET /api/browser/auth-states")]
    AuthStateNotFound(String),
    #[error("the contents of login state `{0}` were not in the restored backup; save it again or delete it")]
    AuthStateLost(String),
    #[error("login state limit reached ({0}); delete a login state first")]
    TooManyAuthStates(u64),
    #[error("a HAR recording is already running; stop it with POST /api/browser/har/stop")]
    HarRunning,
    #[error("no HAR recording is running; start one with POST /api/browser/har/start")]
    HarNotRunning,
    #[error("failed to create a folder for browser files")]
    Folder(#[source] std::io::Error),
    #[error("a recording is already running; stop it with POST /api/browser/recording/stop")]
    RecordingRunning,
    #[error("no recording is running; start one with POST /api/browser/recording/start")]
    NotRecording,
    #[error("recording or step not found; list recordings with GET /api/browser/recordings")]
    RecordingNotFound,
    #[error("recording limit reached ({MAX_RECORDINGS}); delete a recording first")]
    TooManyRecordings,
    #[error("another replay is running; retry when it is complete")]
    ReplayRunning,
    #[error("failed to access the files of the recording")]
    Recording(#[source] std::io::Error),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Browser(#[from] agentd_browser::BrowserError),
}

impl From<VideoError> for BrowserError {
    fn from(error: VideoError) -> Self {
        match error {
            VideoError::Browser(error) => Self::Browser(error),
            error => Self::Video(error),
        }
    }
}

impl From<Vec<FieldProblem>> for BrowserError {
    fn from(problems: Vec<FieldProblem>) -> Self {
        Self::Invalid { problems }
    }
}

impl DomainError for BrowserError {
    fn kind(&self) -> ErrorKind {
        use agentd_browser::BrowserError as Inner;
        match self {
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Refused(_) => ErrorKind::Forbidden,
            Self::AuthStateNotFound(_) | Self::RecordingNotFound => ErrorKind::NotFound,
            Self::NotRunning
            | Self::AuthStateLost(_)
            | Self::TooManyAuthStates(_)
            | Self::HarRunning
            | Self::HarNotRunning
            | Self::RecordingRunning
            | Self::NotRecording
            | Self::TooManyRecordings
            | Self::ReplayRunning
            | Self::VideoInProgress
            | Self::Video(VideoError::TooLarge { .. } | VideoError::Empty) => ErrorKind::Conflict,
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Proxy(_) | Self::TooManyViewers { .. } | Self::ShuttingDown | Self::Video(VideoError::NotBuilt) => {
                ErrorKind::Unavailable
            }
            Self::Video(VideoError::Ended(_)) => ErrorKind::Upstream,
            Self::Folder(_) | Self::Recording(_) | Self::Video(_) => ErrorKind::Internal,
            Self::File(_) => ErrorKind::Invalid(Vec::new()),
            Self::Agent(error) => error.kind(),
            Self::Browser(error) => match error {
                Inner::Unavailable(_) => ErrorKind::Unavailable,
                Inner::Invalid(_) | Inner::File(_) => ErrorKind::Invalid(Vec::new()),
                Inner::NoTab(_) => ErrorKind::NotFound,
                Inner::AddressRefused { .. } => ErrorKind::Forbidden,
                Inner::Ended(_) | Inner::Navigation { .. } | Inner::Protocol(_) => ErrorKind::Upstream,
                Inner::Ambiguous { .. }
                | Inner::NotActionable { .. }
                | Inner::StaleRef { .. }
                | Inner::Timeout { .. }
                | Inner::DialogOpen { .. }
                | Inner::TabCrashed
                | Inner::LimitExceeded(_)
                | Inner::TooManyTabs { .. } => ErrorKind::Conflict,
            },
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotRunning => "browser_not_running",
            Self::AuthStateNotFound(_) => "auth_state_not_found",
            Self::AuthStateLost(_) => "auth_state_lost",
            Self::TooManyAuthStates(_) => "too_many_auth_states",
            Self::HarRunning => "har_running",
            Self::HarNotRunning => "har_not_running",
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::TooManyViewers { .. } => "too_many_viewers",
            Self::VideoInProgress => "video_in_progress",
            Self::Video(VideoError::TooLarge { .. }) => "video_too_large",
            Self::Video(VideoError::Empty) => "recording_empty",
            Self::Video(VideoError::NotBuilt) => "video_unavailable",
            Self::Video(VideoError::Ended(_)) => "browser_ended",
            Self::ShuttingDown => "shutting_down",
            Self::Invalid { .. } => "invalid_request",
            Self::Refused(_) => "address_refused",
            Self::Proxy(_) => "browser_unavailable",
            Self::Folder(_) | Self::Recording(_) | Self::Video(_) => "internal_error",
            Self::File(_) => "file_refused",
            Self::Agent(error) => error.code(),
            Self::RecordingRunning => "recording_running",
            Self::NotRecording => "not_recording",
            Self::RecordingNotFound => "recording_not_found",
            Self::TooManyRecordings => "too_many_recordings",
            Self::ReplayRunning => "replay_running",
            Self::Browser(error) => error.code(),
        }
    }
}
