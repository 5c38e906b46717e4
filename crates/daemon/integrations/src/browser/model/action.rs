//! Browser actions.

use agentd_base::{FieldProblem, Problems};
use agentd_browser::{Action, RecordedStep};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Name of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
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
    /// Returns the required and the optional parameters.
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

/// Action with its target tab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BrowserAction {
    #[serde(flatten)]
    pub action: Action,
    /// The active tab if `None`.
    pub tab_id: Option<String>,
    /// Agent whose workspace contains the file of `upload_file`; the downloads folder if `None`.
    pub agent_id: Option<String>,
    pub timeout_ms: Option<u64>,
}

impl BrowserAction {
    /// Returns an action that navigates to a URL.
    #[must_use]
    pub fn goto(url: String, tab_id: Option<String>) -> Self {
        Self { action: Action::Goto { url, wait_until: None }, tab_id, agent_id: None, timeout_ms: None }
    }

    /// Parses an action from its name and parameters; other parameters are ignored.
    ///
    /// # Errors
    /// All missing parameters, with those the action takes.
    pub fn parse(mut fields: Map<String, Value>) -> Result<Self, Vec<FieldProblem>> {
        fields.retain(|_, value| !value.is_null());
        let unreadable =
            |error: serde_json::Error| vec![FieldProblem { field: "action".to_owned(), message: error.to_string() }];
        let given = fields.get("action").unwrap_or(&Value::Null);
        let (needed, possible) = ActionName::deserialize(given).map_err(unreadable)?.parameters();
        let name = given.as_str().unwrap_or_default();
        let all = [needed, possible, &["tab_id", "timeout_ms"]].concat().join(", ");
        let mut problems = Problems::new();
        for parameter in needed {
            let message = format!("is required by `{name}`, which takes {all}");
            problems.require(fields.contains_key(*parameter), parameter, message);
        }
        if name == "select_option" {
            let given = ["value", "label", "index"].iter().filter(|choice| fields.contains_key(**choice));
            let message = "is required by `select_option`: exactly one of `value`, `label` and `index`";
            problems.require(given.count() == 1, "value", message);
        }
        problems.into_result()?;
        serde_json::from_value(fields.into()).map_err(unreadable)
    }

    /// Parses a recorded step, with secrets filled in in `parameters`.
    ///
    /// # Errors
    /// Same as [`Self::parse`].
    pub fn of_step(step: &RecordedStep, mut parameters: Map<String, Value>) -> Result<Self, Vec<FieldProblem>> {
        parameters.insert("action".to_owned(), step.action.clone().into());
        Self::parse(parameters)
    }

    /// Returns the name and the parameters as they are recorded.
    #[must_use]
    pub fn to_fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    fn parse(fields: &Value) -> Result<BrowserAction, Vec<FieldProblem>> {
        BrowserAction::parse(fields.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn missing_parameters_are_reported() {
        let problems = parse(&json!({"action": "type_text", "text": null, "key": "a"})).unwrap_err();
        let message = "is required by `type_text`, which takes selector, text, clear, delay_ms, tab_id, timeout_ms";
        let problem = |field: &str| FieldProblem { field: field.to_owned(), message: message.to_owned() };
        assert_eq!(problems, [problem("selector"), problem("text")]);
        for choices in [json!({}), json!({"label": "a", "index": 1})] {
            let mut fields = json!({"action": "select_option", "selector": "a"});
            fields.as_object_mut().unwrap().extend(choices.as_object().cloned().unwrap());
            assert_eq!(parse(&fields).unwrap_err()[0].field, "value");
        }
    }

    #[test]
    fn every_action_round_trips_through_its_fields() {
        let value = |parameter: &str| match parameter {
            "accept" | "clear" => json!(true),
            "delay_ms" | "idle_ms" | "index" => json!(1),
            "x" | "y" => json!(1.0),
            "state" => json!("hidden"),
            "wait_until" => json!("domcontentloaded"),
            _ => json!("1"),
        };
        let Value::Array(names) = serde_json::to_value(ActionName::schema()).unwrap()["enum"].take() else {
            panic!("expected a string enum")
        };
        for name in names {
            let (needed, possible) = ActionName::deserialize(&name).unwrap().parameters();
            let is_choice = |parameter: &str| matches!(parameter, "label" | "index");
            let parameters = [needed, possible, &["tab_id", "agent_id"]].concat();
            let mut fields = Map::from_iter([("action".to_owned(), name), ("timeout_ms".to_owned(), json!(5))]);
            fields.extend(parameters.iter().filter(|at| !is_choice(at)).map(|at| ((*at).to_owned(), value(at))));
            let action = BrowserAction::parse(fields.clone()).unwrap();
            assert_eq!(action.to_fields(), fields);
        }
    }
}
