//! Descriptions of the tools for the model.

use std::time::Duration;

use agentd_engine::tools::{Effect, InputSchema, ToolDescription};
use serde_json::{Value, json};

/// Maximum duration of a call: an action can take a minute, followed by a snapshot.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
pub(super) const MAX_CHARACTERS: usize = 200_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Open,
    Act,
    Read,
    Screenshot,
    Tabs,
    Downloads,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Open, Self::Act, Self::Read, Self::Screenshot, Self::Tabs, Self::Downloads];

    pub(super) fn describe(self) -> ToolDescription {
        let (name, description) = self.name_and_description();
        ToolDescription {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: InputSchema::trusted(self.schema()),
            effect: Effect::Acts,
            time_limit: CALL_TIMEOUT,
        }
    }

    fn name_and_description(self) -> (&'static str, &'static str) {
        match self {
            Self::Open => (
                "browser_open",
                "Opens a web page in a real browser and answers what something can be done with on it, one numbered \
                 line an element, such as `@3 button \"Save\"`. Use it where a page needs scripts, a login or clicks; \
                 http_fetch is quicker for reading.",
            ),
            Self::Act => (
                "browser_act",
                "Does one thing on the open page, like a person with mouse and keyboard, and answers the page after \
                 it. It waits until the element can be used and says what is in the way. Name elements by the numbers \
                 of the last answer.",
            ),
            Self::Read => ("browser_read", "Answers the readable text of the open page."),
            Self::Screenshot => (
                "browser_screenshot",
                "Draws the open page into a PNG file of the workspace and answers its path and size.",
            ),
            Self::Tabs => (
                "browser_tabs",
                "Lists the tabs of the browser, makes another one the open page, or closes one. Windows that pages \
                 open are tabs.",
            ),
            Self::Downloads => (
                "browser_downloads",
                "Lists the files that pages sent you. Whole ones are in the folder downloads of the workspace.",
            ),
        }
    }

    fn schema(self) -> Value {
        let (properties, required) = match self {
            Self::Open => (
                json!({
                    "url": {"type": "string", "minLength": 1, "maxLength": 65_536, "description": "http or https"},
                    "new_tab": {"type": "boolean", "description": "Whether the page that is open stays open beside it"},
                }),
                json!(["url"]),
            ),
            Self::Act => (act_properties(), json!(["action"])),
            Self::Read => (
                json!({
                    "max_characters": {"type": "integer", "minimum": 100, "maximum": MAX_CHARACTERS,
                        "description": "How much text at most; left out: 20000"},
                    "tab_id": tab_id(),
                }),
                json!([]),
            ),
            Self::Screenshot => (
                json!({
                    "full_page": {"type": "boolean", "description": "The whole page, not only the window"},
                    "selector": {"type": "string", "maxLength": 4_096, "description": "One element alone"},
                    "path": {"type": "string", "maxLength": 1_024,
                        "description": "Where in the workspace; left out: a new file in screenshots"},
                    "tab_id": tab_id(),
                }),
                json!([]),
            ),
            Self::Tabs => (
                json!({
                    "action": {"type": "string", "enum": ["list", "activate", "close"]},
                    "tab_id": {"type": "string", "maxLength": 64, "description": "Which one; not for list"},
                }),
                json!(["action"]),
            ),
            Self::Downloads => (json!({}), json!([])),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

fn tab_id() -> Value {
    json!({"type": "string", "maxLength": 64, "description": "Another tab than the open page's"})
}

fn act_properties() -> Value {
    let selector = |text: &str| json!({"type": "string", "maxLength": 4_096, "description": text});
    json!({
        "action": {"type": "string", "enum": [
            "click", "double_click", "right_click", "hover", "type_text", "press_key", "select_option", "check",
            "uncheck", "scroll", "scroll_to_element", "drag_and_drop", "focus", "blur", "handle_dialog",
            "wait_for_selector", "wait_for_navigation", "wait_for_network_idle", "go_back", "go_forward", "reload",
            "upload_file",
        ]},
        "selector": selector("The element: @3, or CSS, text=Save, role=button[name=\"Save\"], xpath=//a"),
        "text": {"type": "string", "maxLength": 100_000, "description": "For type_text"},
        "clear": {"type": "boolean", "description": "For type_text: instead of what is there"},
        "key": {"type": "string", "maxLength": 100, "description": "For press_key: Enter, Control+A"},
        "value": {"type": "string", "maxLength": 4_096, "description": "For select_option, or label"},
        "label": {"type": "string", "maxLength": 4_096, "description": "For select_option, what is shown"},
        "x": {"type": "number", "minimum": -100_000, "maximum": 100_000, "description": "For scroll: pixels right"},
        "y": {"type": "number", "minimum": -100_000, "maximum": 100_000, "description": "For scroll: pixels down"},
        "source": selector("For drag_and_drop"),
        "target": selector("For drag_and_drop"),
        "accept": {"type": "boolean", "description": "For handle_dialog"},
        "prompt_text": {"type": "string", "maxLength": 100_000, "description": "For handle_dialog"},
        "state": {"type": "string", "enum": ["visible", "hidden", "attached", "detached"],
            "description": "For wait_for_selector"},
        "url": {"type": "string", "maxLength": 65_536, "description": "For wait_for_navigation: a part of the address"},
        "path": {"type": "string", "maxLength": 4_096, "description": "For upload_file: a file of the workspace"},
        "tab_id": tab_id(),
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 60_000, "description": "Left out: 10000"},
    })
}
