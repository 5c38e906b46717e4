//! What can be done on a page.
//!
//! An action that needs an element waits until the element is attached, visible, still for two
//! frames, enabled, and the one that receives an event at its point; then it sends real events of
//! the mouse or the keyboard. Whatever is missing at the end of its time is said.

mod forms;
mod keyboard;
mod keys;
pub(crate) mod locate;
mod perform;
mod pointer;
mod shortcuts;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::tab::{Dialog, LoadState};

pub const DEFAULT_TIMEOUT_MS: u64 = 10_000;
pub const MAX_TIMEOUT_MS: u64 = 60_000;

/// An action and how long it may wait.
#[derive(Debug, Clone, Deserialize)]
pub struct ActionRequest {
    #[serde(flatten)]
    pub action: Action,
    /// At most [`MAX_TIMEOUT_MS`].
    pub timeout_ms: Option<u64>,
}

impl From<Action> for ActionRequest {
    fn from(action: Action) -> Self {
        Self { action, timeout_ms: None }
    }
}

/// What can be done on a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    Goto {
        url: String,
        /// Default: the load of the page.
        wait_until: Option<LoadState>,
    },
    Click {
        selector: String,
    },
    DoubleClick {
        selector: String,
    },
    RightClick {
        selector: String,
    },
    Hover {
        selector: String,
    },
    /// Up to 2,000 characters as keys, longer text at once.
    TypeText {
        selector: String,
        text: String,
        /// Replaces what is there.
        clear: Option<bool>,
        delay_ms: Option<u64>,
    },
    /// `Enter`, `Control+A`; to the element, or to what has the focus.
    PressKey {
        key: String,
        selector: Option<String>,
    },
    SelectOption {
        selector: String,
        value: Option<String>,
        label: Option<String>,
        index: Option<u32>,
    },
    Check {
        selector: String,
    },
    Uncheck {
        selector: String,
    },
    /// By pixels, with the wheel, over the element or the middle of the page.
    Scroll {
        #[serde(default)]
        x: f64,
        #[serde(default)]
        y: f64,
        selector: Option<String>,
    },
    ScrollToElement {
        selector: String,
    },
    DragAndDrop {
        source: String,
        target: String,
    },
    Focus {
        selector: String,
    },
    Blur {
        selector: String,
    },
    /// Answers the dialog that is open, or the next one.
    HandleDialog {
        accept: bool,
        prompt_text: Option<String>,
    },
    WaitForSelector {
        selector: String,
        /// Default: visible.
        state: Option<ElementState>,
    },
    /// With `url`, for an address that contains it.
    WaitForNavigation {
        url: Option<String>,
    },
    WaitForNetworkIdle {
        idle_ms: Option<u64>,
    },
    GoBack,
    GoForward,
    Reload,
    UploadFile {
        selector: String,
        path: std::path::PathBuf,
    },
}

impl Action {
    /// The parameters that name elements.
    pub fn selectors_mut(&mut self) -> Vec<(&'static str, &mut String)> {
        match self {
            Self::Click { selector }
            | Self::DoubleClick { selector }
            | Self::RightClick { selector }
            | Self::Hover { selector }
            | Self::TypeText { selector, .. }
            | Self::SelectOption { selector, .. }
            | Self::Check { selector }
            | Self::Uncheck { selector }
            | Self::ScrollToElement { selector }
            | Self::Focus { selector }
            | Self::Blur { selector }
            | Self::WaitForSelector { selector, .. }
            | Self::UploadFile { selector, .. } => vec![("selector", selector)],
            Self::PressKey { selector, .. } | Self::Scroll { selector, .. } => {
                selector.iter_mut().map(|selector| ("selector", selector)).collect()
            }
            Self::DragAndDrop { source, target } => vec![("source", source), ("target", target)],
            Self::Goto { .. }
            | Self::HandleDialog { .. }
            | Self::WaitForNavigation { .. }
            | Self::WaitForNetworkIdle { .. }
            | Self::GoBack
            | Self::GoForward
            | Self::Reload => Vec::new(),
        }
    }
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AwaitedState)]
pub enum ElementState {
    #[default]
    Visible,
    Hidden,
    Attached,
    Detached,
}

/// How a page is after an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActionOutcome {
    pub ok: bool,
    pub url: String,
    pub title: String,
    pub duration_ms: u64,
    pub tab_id: String,
    /// The last dialog that came up meanwhile, or one before that nobody answered in time; one without an answer is
    /// open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialog: Option<Dialog>,
    /// Whether the page went somewhere else.
    pub navigated: bool,
}
