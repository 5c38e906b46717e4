//! Text lines of a snapshot.

use std::collections::HashMap;
use std::fmt::Write;

use agentd_base::visible::is_hidden;

use super::clickable::Clickable;
use super::references::{MAX_ELEMENTS, Reference};
use super::tree::{AxNode, FullTree};
use crate::tab::FrameId;

const MAX_TEXT_BYTES: usize = 100 << 10;
const MAX_NAME_BYTES: usize = 150;
/// Maximum depth of the traversal, since pages control the depth of their trees.
const MAX_DEPTH: usize = 2_000;

/// Input of a snapshot: the trees of all frames, the frames embedded by nodes, and the clickable elements.
pub(super) struct Source<'a> {
    pub(super) trees: HashMap<FrameId, FullTree<'a>>,
    pub(super) owners: HashMap<(FrameId, i64), FrameId>,
    pub(super) clickable: HashMap<FrameId, Clickable>,
}

impl Source<'_> {
    /// Returns the name of a clickable element that is listed without a role.
    fn clickable(&self, frame: &FrameId, node: &AxNode<'_>) -> Option<&str> {
        let name = self.clickable.get(frame)?.get(&node.node?)?;
        (!node.is_listed()).then_some(name)
    }
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) text: String,
    pub(super) references: Vec<Reference>,
    pub(super) is_truncated: bool,
}

/// Writes the lines in reading order, with frames at their position in the page.
pub(super) fn lines(source: &Source<'_>, main: &FrameId, full: bool) -> Lines {
    let mut lines = Lines::default();
    let indexes: HashMap<&FrameId, HashMap<&str, &AxNode<'_>>> =
        source.trees.iter().map(|(frame, tree)| (frame, tree.index())).collect();
    // Frame, node, whether an enclosing element already covers its text, depth.
    let mut stack: Vec<(&FrameId, &AxNode<'_>, bool, usize)> = Vec::new();
    stack.extend(source.trees.get(main).and_then(|tree| tree.nodes.first()).map(|root| (main, root, false, 0)));
    while let Some((frame, node, is_covered, depth)) = stack.pop() {
        let clickable = source.clickable(frame, node);
        let is_full = lines.references.len() >= MAX_ELEMENTS && (node.is_listed() || clickable.is_some());
        if is_full || lines.text.len() >= MAX_TEXT_BYTES {
            lines.is_truncated = true;
            break;
        }
        // A closed select shows its selected option.
        if node.role() == "MenuListPopup" {
            continue;
        }
        let covers_text = match clickable {
            Some(name) => lines.add_clickable(frame, node, name),
            None => !node.ignored && lines.add(frame, node, full && !is_covered),
        };
        if depth >= MAX_DEPTH {
            lines.is_truncated = true;
            continue;
        }
        let shown = node.node.and_then(|id| source.owners.get(&(frame.clone(), id)));
        if let Some((inner, root)) = shown.and_then(|inner| Some((inner, source.trees.get(inner)?.nodes.first()?))) {
            stack.push((inner, root, false, depth + 1));
            continue;
        }
        // The parts of a date or time input are not text.
        if matches!(node.role(), "Date" | "DateTime" | "InputTime") {
            continue;
        }
        let Some(index) = indexes.get(frame) else { continue };
        // The name of an element such as a link already contains its text.
        let is_covered = if covers_text {
            clickable.is_some_and(|name| name.len() <= MAX_NAME_BYTES) || !has_parts(node)
        } else {
            is_covered
        };
        let children = node.child_ids.iter().rev().filter_map(|id| index.get(id));
        stack.extend(children.map(|child| (frame, *child, is_covered, depth + 1)));
    }
    lines
}

/// Whether the text inside an interactive element goes beyond its name.
fn has_parts(node: &AxNode<'_>) -> bool {
    matches!(node.role(), "listbox" | "treeitem" | "gridcell" | "generic" | "group")
}

/// Formats a name as shown in a snapshot, which selectors can use.
pub(crate) fn escape_name(name: &str) -> String {
    one_line(name, MAX_NAME_BYTES).replace('"', "'")
}

impl Lines {
    /// Adds a clickable element without a role.
    fn add_clickable(&mut self, frame: &FrameId, node: &AxNode<'_>, name: &str) -> bool {
        let Some(id) = node.node else { return false };
        self.references.push(Reference {
            frame: frame.clone(),
            node: id,
            role: node.role().to_owned(),
            name: node.name().to_owned(),
            text: Some(name.to_owned()),
        });
        let _ = writeln!(self.text, "@{} clickable \"{}\"", self.references.len(), escape_name(name));
        true
    }

    /// Adds a node. Returns whether its line covers its text.
    fn add(&mut self, frame: &FrameId, node: &AxNode<'_>, full: bool) -> bool {
        if let (true, Some(id)) = (node.is_interactive(), node.node) {
            self.references.push(Reference {
                frame: frame.clone(),
                node: id,
                role: node.role().to_owned(),
                name: node.name().to_owned(),
                text: None,
            });
            // Writing to a string does not fail.
            let _ = write!(self.text, "@{} {}", self.references.len(), display_role(node));
            self.finish(node);
            return true;
        }
        if !full || node.name().trim().is_empty() {
            return false;
        }
        match node.role() {
            "heading" => {
                let level = node.property("level").and_then(serde_json::Value::as_u64).unwrap_or(1);
                let _ =
                    writeln!(self.text, "{} {}", "#".repeat(level.clamp(1, 6) as usize), one_line(node.name(), 500));
                true
            }
            "StaticText" => {
                let _ = writeln!(self.text, "{}", one_line(node.name(), 2_000));
                true
            }
            "image" | "img" => {
                let _ = writeln!(self.text, "image \"{}\"", one_line(node.name(), MAX_NAME_BYTES));
                true
            }
            _ => false,
        }
    }

    fn finish(&mut self, node: &AxNode<'_>) {
        let _ = write!(self.text, " \"{}\"", escape_name(node.name()));
        let mut notes: Vec<String> = Vec::new();
        if let Some(value) = node.value() {
            notes.push(format!("value \"{}\"", escape_name(&value)));
        }
        for (property, note) in [
            ("disabled", "disabled"),
            ("checked", "checked"),
            ("pressed", "pressed"),
            ("selected", "selected"),
            ("required", "required"),
            ("readonly", "read-only"),
            ("focused", "focused"),
        ] {
            if node.is(property) {
                notes.push(note.to_owned());
            }
        }
        if node.property("checked").and_then(serde_json::Value::as_str) == Some("mixed") {
            notes.push("partly checked".to_owned());
        }
        if node.property("expanded").is_some() {
            notes.push(if node.is("expanded") { "expanded" } else { "collapsed" }.to_owned());
        }
        if !notes.is_empty() {
            let _ = write!(self.text, " ({})", notes.join(", "));
        }
        self.text.push('\n');
    }
}

fn display_role<'a>(node: &'a AxNode<'_>) -> &'a str {
    match node.role() {
        "Date" | "DateTime" | "InputTime" => "date or time",
        "ColorWell" => "colour",
        "DisclosureTriangle" => "disclosure",
        "PopUpButton" => "combobox",
        role => role,
    }
}

/// Replaces line breaks by spaces and drops characters without a visible form.
fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
        } else if !is_hidden(character) {
            line.push(character);
        }
        if line.len() >= max_bytes {
            line.push('…');
            break;
        }
    }
    line.trim().to_owned()
}
