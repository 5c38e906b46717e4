//! Actions on a page.
//!
//! An action on an element waits until the element is attached, visible, stable for two frames and enabled. The element
//! must also be the one that receives events at its point. Then the action sends real mouse or keyboard events. A
//! timeout error states which condition was not met.

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

/// Action with its time limit.
#[derive(Debug, Clone, Deserialize)]
pub struct ActionRequest {
    #[serde(flatten)]
    pub action: Action,
    /// Time limit in milliseconds, up to [`MAX_TIMEOUT_MS`]; default [`DEFAULT_TIMEOUT_MS`].
    pub timeout_ms: Option<u64>,
}

impl From<Action> for ActionRequest {
    fn from(action: Action) -> Self {
        Self { action, timeout_ms: None }
    }
}

/// Action on a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    Goto {
        url: String,
        /// State to wait for; default: `load`.
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
    /// Types up to 2,000 characters as keys; inserts longer text in one step.
    TypeText {
        selector: String,
        text: String,
        /// Whether the existing text is replaced.
        clear: Option<bool>,
        delay_ms: Option<u64>,
    },
    /// Presses a key or chord such as `Enter` or `Control+A`, in the element or in the focused one.
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
    /// Scrolls by pixels with the mouse wheel, over the element or the centre of the page.
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
    /// Answers the open dialog, or else the next one.
    HandleDialog {
        accept: bool,
        prompt_text: Option<String>,
    },
    WaitForSelector {
        selector: String,
        /// State to wait for; default: `visible`.
        state: Option<ElementState>,
    },
    /// Waits for a navigation; with `url`, to an address that contains it.
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
    /// Returns the selector parameters with their names.
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

/// Element state to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AwaitedState)]
pub enum ElementState {
    /// Attached and visible.
    #[default]
    Visible,
    /// Not visible, or not attached.
    Hidden,
    /// In the document, visible or not.
    Attached,
    /// Not in the document.
    Detached,
}

/// State of the page after an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActionOutcome {
    pub ok: bool,
    pub url: String,
    pub title: String,
    pub duration_ms: u64,
    pub tab_id: String,
    /// Last dialog opened during the action, or an earlier one that timed out. A dialog without an answer is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialog: Option<Dialog>,
    /// Whether the page navigated.
    pub navigated: bool,
}
