//! One action with its parameters, before it is known to be whole.

use agentd_base::{FieldProblem, Problems};
use agentd_browser::ActionRequest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What can be done on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionName {
    Goto,
    Click,
    DoubleClick,
    RightClick,
    Hover,
    TypeText,
    PressKey,
    SelectOption,
    Check,
    Uncheck,
    Scroll,
    ScrollToElement,
    DragAndDrop,
    Focus,
    Blur,
    HandleDialog,
    WaitForSelector,
    WaitForNavigation,
    WaitForNetworkIdle,
    GoBack,
    GoForward,
    Reload,
    UploadFile,
}

impl ActionName {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Goto => "goto",
            Self::Click => "click",
            Self::DoubleClick => "double_click",
            Self::RightClick => "right_click",
            Self::Hover => "hover",
            Self::TypeText => "type_text",
            Self::PressKey => "press_key",
            Self::SelectOption => "select_option",
            Self::Check => "check",
            Self::Uncheck => "uncheck",
            Self::Scroll => "scroll",
            Self::ScrollToElement => "scroll_to_element",
            Self::DragAndDrop => "drag_and_drop",
            Self::Focus => "focus",
            Self::Blur => "blur",
            Self::HandleDialog => "handle_dialog",
            Self::WaitForSelector => "wait_for_selector",
            Self::WaitForNavigation => "wait_for_navigation",
            Self::WaitForNetworkIdle => "wait_for_network_idle",
            Self::GoBack => "go_back",
            Self::GoForward => "go_forward",
            Self::Reload => "reload",
            Self::UploadFile => "upload_file",
        }
    }

    /// The parameters that it cannot do without, and those that it may have besides.
    fn parameters(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Goto => (&["url"], &["wait_until"]),
            Self::Click
            | Self::DoubleClick
            | Self::RightClick
            | Self::Hover
            | Self::Check
            | Self::Uncheck
            | Self::ScrollToElement
            | Self::Focus
            | Self::Blur => (&["selector"], &[]),
            Self::TypeText => (&["selector", "text"], &["clear", "delay_ms"]),
            Self::PressKey => (&["key"], &["selector"]),
            Self::SelectOption => (&["selector"], &["value", "label", "index"]),
            Self::Scroll => (&["x", "y"], &["selector"]),
            Self::DragAndDrop => (&["source", "target"], &[]),
            Self::HandleDialog => (&["accept"], &["prompt_text"]),
            Self::WaitForSelector => (&["selector"], &["state"]),
            Self::WaitForNavigation => (&[], &["url"]),
            Self::WaitForNetworkIdle => (&[], &["idle_ms"]),
            Self::GoBack | Self::GoForward | Self::Reload => (&[], &[]),
            Self::UploadFile => (&["selector", "path"], &["agent_id"]),
        }
    }
}

/// When a page counts as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitUntil {
    Load,
    #[serde(rename = "domcontentloaded")]
    DomContentLoaded,
    NetworkIdle,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AwaitedState)]
pub enum ElementState {
    Visible,
    Hidden,
    Attached,
    Detached,
}

/// An action and its parameters. Which of them it needs depends on the action; the others are ignored.
///
/// A selector is CSS, `text=…`, `role=button[name="…"]`, `xpath=…`, or `@N` from the last snapshot of the tab.
/// `point=40%,25.5%` is what is there, from the left and from the top of what is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserAction)]
pub struct ActionFields {
    pub action: ActionName,
    /// Of `goto`: `http`, `https`, `data:`, `blob:` or `about:blank`. Of `wait_for_navigation`: a part of the address.
    #[schema(max_length = 65_536, example = "https://example.com")]
    pub url: Option<String>,
    /// Of `goto`; default `load`.
    pub wait_until: Option<WaitUntil>,
    #[schema(max_length = 4_096)]
    pub selector: Option<String>,
    /// Of `type_text`.
    #[schema(max_length = 1_000_000)]
    pub text: Option<String>,
    /// Of `type_text`: whether it replaces what is there.
    pub clear: Option<bool>,
    /// Of `type_text`: between two keys.
    #[schema(minimum = 0, maximum = 1_000)]
    pub delay_ms: Option<u64>,
    /// Of `press_key`: `Enter`, `Control+A`.
    #[schema(max_length = 100)]
    pub key: Option<String>,
    /// Of `select_option`, one of `value`, `label` and `index`.
    #[schema(max_length = 4_096)]
    pub value: Option<String>,
    #[schema(max_length = 4_096)]
    pub label: Option<String>,
    #[schema(minimum = 0, maximum = 100_000)]
    pub index: Option<u32>,
    /// Of `scroll`, in pixels, to the right.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    pub x: Option<f64>,
    /// Of `scroll`, in pixels, down.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    pub y: Option<f64>,
    /// Of `drag_and_drop`, a selector.
    #[schema(max_length = 4_096)]
    pub source: Option<String>,
    #[schema(max_length = 4_096)]
    pub target: Option<String>,
    /// Of `handle_dialog`: answers the dialog that is open, or the next one.
    pub accept: Option<bool>,
    #[schema(max_length = 100_000)]
    pub prompt_text: Option<String>,
    /// Of `wait_for_selector`; default `visible`.
    pub state: Option<ElementState>,
    /// Of `wait_for_network_idle`: how long nothing is loaded; default 500.
    #[schema(minimum = 0, maximum = 60_000)]
    pub idle_ms: Option<u64>,
    /// Of `upload_file`: a file of the workspace of `agent_id`, or without one of the folder of downloads.
    #[schema(max_length = 4_096)]
    pub path: Option<String>,
    /// Of `upload_file`: the agent whose workspace it is, by id or svc_name.
    #[schema(max_length = 64)]
    pub agent_id: Option<String>,
    /// Where to act; default: the active tab.
    #[schema(max_length = 64)]
    pub tab_id: Option<String>,
    /// How long the action may wait for what it needs; default 10,000.
    #[schema(minimum = 1, maximum = 60_000)]
    pub timeout_ms: Option<u64>,
}

impl ActionFields {
    /// Goes to an address.
    #[must_use]
    pub fn goto(url: String, tab_id: &str) -> Self {
        Self { url: Some(url), tab_id: Some(tab_id.to_owned()), ..Self::of(ActionName::Goto) }
    }

    /// Without parameters.
    #[must_use]
    pub fn of(action: ActionName) -> Self {
        Self {
            action,
            url: None,
            wait_until: None,
            selector: None,
            text: None,
            clear: None,
            delay_ms: None,
            key: None,
            value: None,
            label: None,
            index: None,
            x: None,
            y: None,
            source: None,
            target: None,
            accept: None,
            prompt_text: None,
            state: None,
            idle_ms: None,
            path: None,
            agent_id: None,
            tab_id: None,
            timeout_ms: None,
        }
    }

    /// As the browser takes it.
    ///
    /// # Errors
    /// Every parameter that is missing, with those that the action takes.
    pub fn request(&self) -> Result<ActionRequest, Vec<FieldProblem>> {
        let mut whole = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = whole.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let (needed, possible) = self.action.parameters();
        let all = [needed, possible, &["tab_id", "timeout_ms"]].concat().join(", ");
        let mut problems = Problems::new();
        for name in needed {
            let message = format!("is required by `{}`, which takes {all}", self.action.as_str());
            problems.require(whole.get(name).is_some(), name, message);
        }
        if self.action == ActionName::SelectOption {
            let given = [self.value.is_some(), self.label.is_some(), self.index.is_some()];
            let message = "or `label` or `index` is required by `select_option`, one of the three";
            problems.require(given.iter().filter(|given| **given).count() == 1, "value", message);
        }
        problems.into_result()?;
        serde_json::from_value::<ActionRequest>(whole)
            .map_err(|error| vec![FieldProblem { field: "action".to_owned(), message: error.to_string() }])
    }
}
