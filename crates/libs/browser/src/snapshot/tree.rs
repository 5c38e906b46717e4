//! Accessibility tree of a frame and DOM nodes, as serialized by Chromium.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct FullTree<'a> {
    #[serde(borrow)]
    pub(super) nodes: Vec<AxNode<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AxNode<'a> {
    #[serde(borrow)]
    pub(super) node_id: Cow<'a, str>,
    #[serde(default)]
    pub(super) ignored: bool,
    #[serde(borrow, default)]
    role: Option<AxText<'a>>,
    #[serde(borrow, default)]
    name: Option<AxText<'a>>,
    #[serde(default)]
    value: Option<AxValue>,
    #[serde(borrow, default)]
    properties: Vec<AxProperty<'a>>,
    #[serde(borrow, default)]
    pub(super) child_ids: Vec<&'a str>,
    #[serde(rename = "backendDOMNodeId", default)]
    pub(super) node: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct AxText<'a> {
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct AxValue {
    #[serde(default)]
    value: Value,
}

#[derive(Debug, Deserialize)]
struct AxProperty<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    value: AxValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) backend_node_id: i64,
}

#[derive(Deserialize)]
pub(super) struct Described {
    pub(super) node: Owner,
}

impl AxNode<'_> {
    pub(super) fn role(&self) -> &str {
        self.role.as_ref().map_or("", |role| &role.value)
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_ref().map_or("", |name| &name.value)
    }

    /// Returns the non-empty value of a field.
    pub(super) fn value(&self) -> Option<String> {
        match &self.value.as_ref()?.value {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(super) fn property(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|property| property.name == name).map(|property| &property.value.value)
    }

    pub(super) fn is(&self, name: &str) -> bool {
        match self.property(name) {
            Some(Value::Bool(is)) => *is,
            Some(Value::String(is)) => is == "true",
            _ => false,
        }
    }

    /// Whether the node has its own line.
    pub(super) fn is_listed(&self) -> bool {
        !self.ignored && self.node.is_some() && self.is_interactive()
    }

    pub(super) fn is_interactive(&self) -> bool {
        const ROLES: [&str; 28] = [
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "listbox",
            "option",
            "checkbox",
            "radio",
            "switch",
            "slider",
            "spinbutton",
            "menuitem",
            "menuitemcheckbox",
            "menuitemradio",
            "tab",
            "treeitem",
            "gridcell",
            "Date",
            "DateTime",
            "InputTime",
            "ColorWell",
            "DisclosureTriangle",
            "PopUpButton",
            "Video",
            "Audio",
            "scrollbar",
            "ToggleButton",
        ];
        match self.role() {
            // Grids contain thousands of cells; only focusable ones are interactive.
            "gridcell" | "scrollbar" | "Video" | "Audio" => self.is("focusable"),
            "RootWebArea" | "Iframe" | "IframePresentational" => false,
            role if ROLES.contains(&role) => true,
            // Elements made focusable by a script, and editable elements.
            _ => self.is("focusable") && (!self.name().is_empty() || self.property("editable").is_some()),
        }
    }
}

impl<'a> FullTree<'a> {
    /// Returns the nodes by ID.
    pub(super) fn index(&'a self) -> HashMap<&'a str, &'a AxNode<'a>> {
        self.nodes.iter().map(|node| (&*node.node_id, node)).collect()
    }
}
