//! Chromium, driven over a private pipe: for an agent that opens pages, reads them and works on them.
//!
//! Invariants
//! - Chromium never outlives whoever started it, and leaves no folder. As root it has a user of its
//!   own; its sandbox is on unless the caller switches it off by name.
//! - Everything is bounded: tabs, processes, memory, downloads, messages, texts, and the time of each
//!   action. A crash or a hang ends what waits with an error, and the next context has a new process.
//! - An action reaches the element that was named or fails with what kept it from there. It sends
//!   events of the mouse and the keyboard; it never calls a page's handlers.
//! - Which servers may be reached is not decided here but by the proxy that the options name;
//!   Chromium has no way past it.
//! - A tab shows addresses of web pages only, whatever led it there; pages of Chromium and files are refused.
//! - How a browser appears, its mocks and the list of its requests belong to an [`Environment`], which outlives a
//!   Chromium that ends.
//! - Videos are encoded by a Chromium of their own, whose page reaches nothing.
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
mod network;
mod options;
mod own_page;
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
pub use storage_state::{Database, LeftOut, MAX_STATE_BYTES, OriginStorage, SavedState, StorageState, StoredItem};
pub use tab::{Dialog, DialogAnswer, LoadState, Tab, TabInfo};
pub use video::{VideoEncoder, VideoError, VideoOptions};
