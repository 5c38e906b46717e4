//! Chromium automation over a private pipe, for agents that open, read and operate web pages.
//!
//! Invariants
//! - Chromium never outlives its owner and leaves no directory behind. A root daemon runs it as a dedicated user. Its
//!   sandbox is on unless the caller explicitly disables it.
//! - All resources are limited: tabs, processes, memory, downloads, messages, texts, and the time of each action. A
//!   crash or hang fails pending operations, and the next context starts a new process.
//! - An action reaches the named element or fails with the reason. It sends mouse and keyboard events and never calls
//!   handlers of a page.
//! - The configured proxy decides which servers may be reached; Chromium cannot bypass it.
//! - Tabs show only web addresses. Chromium's internal pages and files are refused, whatever led to them.
//! - Emulation, mocks and the request log belong to an [`Environment`], which outlives a Chromium that ends.
//! - Videos are encoded by a separate Chromium, whose page has no network access.
//!
//! Deliberately absent: SQL, serving HTTP, and types for the whole DevTools protocol.

mod action;
mod active;
mod address;
mod browser;
mod cdp;
mod chromium;
mod cookies;
mod downloads;
mod emulation;
mod environment;
mod error;
mod internal_page;
mod network;
mod options;
mod proxy_login;
mod recording;
mod registry;
mod screencast;
mod screenshot;
mod selector;
mod shared;
mod snapshot;
mod storage_state;
mod tab;
mod video;

pub use action::{Action, ActionOutcome, ActionRequest, DEFAULT_TIMEOUT_MS, ElementState, MAX_TIMEOUT_MS};
pub use browser::{Browser, Context};
pub use chromium::{find_chromium, remove_abandoned};
pub use cookies::{Cookie, SameSite};
pub use downloads::{Download, DownloadState};
pub use emulation::{ColorScheme, Emulation, Geolocation, Preset, Profile};
pub use environment::Environment;
pub use error::BrowserError;
pub use network::{MAX_MOCK_BYTES, MAX_MOCKS, Mock, NetworkRequest, RequestFilter};
pub use options::{BrowserLimits, BrowserOptions, ChromiumSandbox, ProxyEndpoint};
pub use recording::{
    Alternative, AlternativeKind, CredentialsInUrl, Drift, Fingerprint, PopupOf, Recorded, RecordedStep,
    RecordedTarget, Recorder, Replay, ReplayError, Replayed, StepTab, TabOrigin, Tried, with_secrets,
};
pub use screencast::{MAX_FRAMES_PER_SECOND, Pace, Viewer};
pub use screenshot::{Area, ImageFormat};
pub use selector::is_point;
pub use snapshot::{MAX_ELEMENTS, Snapshot};
pub use storage_state::{
    Database, MAX_STATE_BYTES, OriginStorage, SavedState, SkippedDatabase, StorageState, StoredItem,
};
pub use tab::{Dialog, DialogAnswer, LoadState, Tab, TabInfo};
pub use video::{VideoEncoder, VideoError, VideoOptions};
