//! Paginated list of a server's tools. The server's data is untrusted: an invalid tool is skipped with a reason,
//! without affecting the others.

use std::collections::HashSet;

use agentd_base::visible::{is_hidden, strip_tags_in};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schema;
use crate::ListLimits;
use crate::text::{one_line, truncate};

const MAX_NAME: usize = 128;
const MAX_TITLE: usize = 200;
const MAX_CURSOR: usize = 4_096;
/// Maximum number of retained reasons; a server with more invalid tools is itself broken.
const MAX_SKIPPED: usize = 64;

/// Server's hints about a tool. They are untrusted: they may cause additional approval requests, never fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// Usable tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDescription {
    /// Name used by the server: 1 to 128 bytes of visible characters, with spaces only inside; unique within the
    /// server.
    pub name: String,
    pub title: Option<String>,
    /// Description written by the server, only as trustworthy as the server.
    pub description: String,
    /// JSON Schema that compiles and has `type` `object`.
    pub input_schema: Map<String, Value>,
    pub hints: ToolHints,
}

/// Tool that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedTool {
    /// Name as written by the server, reduced to one short line; empty if missing.
    pub name: String,
    /// Reason, which completes "left out, because".
    pub reason: String,
}

/// Result of listing a server's tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolList {
    pub tools: Vec<ToolDescription>,
    pub left_out: Vec<SkippedTool>,
    /// Reason why the list ends before the server's list does.
    pub cut_short: Option<String>,
}

/// Collects the pages of a list.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    limits: &'a ListLimits,
    list: ToolList,
    names: HashSet<String>,
    cursors: HashSet<String>,
    bytes: usize,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(limits: &'a ListLimits) -> Self {
        Self { limits, list: ToolList::default(), names: HashSet::new(), cursors: HashSet::new(), bytes: 0 }
    }

    /// Adds one page. Returns the cursor of the next page, if it should be requested.
    ///
    /// # Errors
    /// Returns a message if this is not a valid page.
    pub(crate) fn add_page(&mut self, page: Value) -> Result<Option<String>, String> {
        let Value::Object(mut page) = page else { return Err("the list of tools is not a JSON object".to_owned()) };
        let Some(Value::Array(tools)) = page.remove("tools") else {
            return Err("the list of tools has no member `tools`".to_owned());
        };
        let has_more_pages = page.get("nextCursor").is_some_and(Value::is_string);
        let count = tools.len();
        for (position, tool) in tools.into_iter().enumerate() {
            if self.list.tools.len() == self.limits.max_tools {
                let (left, at_least) = (count - position, if has_more_pages { "at least " } else { "" });
                let limit = self.limits.max_tools;
                self.list.cut_short =
                    Some(format!("{at_least}{left} more tools; the limit is {limit} tools per server"));
                return Ok(None);
            }
            if self.bytes > self.limits.max_total_bytes {
                self.list.cut_short =
                    Some(format!("the tool descriptions exceed {} bytes", self.limits.max_total_bytes));
                return Ok(None);
            }
            self.add_tool(tool);
        }
        let Some(Value::String(cursor)) = page.remove("nextCursor") else { return Ok(None) };
        if cursor.len() > MAX_CURSOR || !self.cursors.insert(cursor.clone()) {
            self.list.cut_short = Some("the server repeats pages of the list".to_owned());
            return Ok(None);
        }
        if self.cursors.len() == self.limits.max_pages {
            self.list.cut_short = Some(format!("the list has more than {} pages", self.limits.max_pages));
            return Ok(None);
        }
        Ok(Some(cursor))
    }

    pub(crate) fn finish(self) -> ToolList {
        self.list
    }

    fn add_tool(&mut self, tool: Value) {
        let shown_name = tool.get("name").and_then(Value::as_str).map(|name| one_line(name, MAX_NAME));
        match self.check(tool) {
            Ok(tool) => {
                self.names.insert(tool.name.clone());
                self.list.tools.push(tool);
            }
            Err(reason) if self.list.left_out.len() < MAX_SKIPPED => {
                self.list.left_out.push(SkippedTool { name: shown_name.unwrap_or_default(), reason });
            }
            Err(_) => {}
        }
    }

    fn check(&mut self, mut tool: Value) -> Result<ToolDescription, String> {
        // Calls use the server's own spelling of the name.
        let name = tool.get_mut("name").map(Value::take);
        strip_tags_in(&mut tool);
        let Value::Object(mut tool) = tool else { return Err("it is not described by a JSON object".to_owned()) };
        let Some(Value::String(name)) = name else { return Err("it has no name".to_owned()) };
        if name.trim().is_empty() || name.len() > MAX_NAME {
            return Err(format!("its name does not have 1 to {MAX_NAME} bytes"));
        }
        if name.chars().any(|character| is_hidden(character) || matches!(character, '\n' | '\t')) {
            return Err("its name contains invisible characters".to_owned());
        }
        if self.names.contains(&name) {
            return Err("another tool has the same name".to_owned());
        }
        let schema = tool.remove("inputSchema").ok_or("it has no input schema")?;
        let (input_schema, schema_bytes) =
            schema::check(schema, self.limits.max_schema_bytes, self.limits.max_schema_depth)?;
        let description = sanitize_text(tool.remove("description"), self.limits.max_description_characters * 4);
        let description = description.chars().take(self.limits.max_description_characters).collect::<String>();
        self.bytes += schema_bytes + description.len() + name.len();
        let hints = hints(tool.get("annotations"));
        let mut title = sanitize_text(tool.remove("title"), MAX_TITLE);
        if title.is_empty() {
            title = sanitize_text(tool.get("annotations").and_then(|hints| hints.get("title")).cloned(), MAX_TITLE);
        }
        Ok(ToolDescription { name, title: (!title.is_empty()).then_some(title), description, input_schema, hints })
    }
}

/// Returns text without control characters, truncated to `limit` bytes.
fn sanitize_text(text: Option<Value>, limit: usize) -> String {
    let Some(Value::String(mut text)) = text else { return String::new() };
    truncate(&mut text, limit);
    text.retain(|character| !character.is_control() || matches!(character, '\n' | '\t'));
    text.trim().to_owned()
}

fn hints(annotations: Option<&Value>) -> ToolHints {
    let hint = |name: &str| annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_bool);
    ToolHints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn collect(pages: &[Value], limits: &ListLimits) -> (ToolList, usize) {
        let mut collector = Collector::new(limits);
        let mut taken = 0;
        for page in pages {
            taken += 1;
            if collector.add_page(page.clone()).expect("a page").is_none() {
                break;
            }
        }
        (collector.finish(), taken)
    }

    fn tool(name: &str) -> Value {
        json!({ "name": name, "description": "d", "inputSchema": { "type": "object" } })
    }

    #[test]
    fn invalid_tool_does_not_affect_the_others() {
        let page = json!({ "tools": [
            tool("good"), tool("good"), tool(" "), tool("go\u{e0041}od"), tool("two\nlines"), tool(&"x".repeat(129)), 7,
            { "description": "nameless" }, { "name": "schemaless" },
            { "name": "bad", "inputSchema": { "type": "array" } },
            { "name": "better", "title": "T", "inputSchema": {}, "annotations": { "readOnlyHint": true } },
        ] });
        let (list, _) = collect(&[page], &ListLimits::default());
        let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "better"]);
        assert_eq!(list.tools[1].hints.read_only, Some(true));
        assert_eq!(list.left_out.len(), 9);
        assert!(list.left_out.iter().all(|tool| tool.name.len() <= MAX_NAME + 3));
        assert!(list.left_out[0].reason.contains("same name"));
        assert_eq!(list.cut_short, None);
    }

    #[test]
    fn names_with_spaces_and_other_scripts_are_accepted() {
        let names = ["Create CIFS Share", "Freigabe löschen", "創建", "a/b.c:d"];
        let page = json!({ "tools": names.map(tool) });
        let (list, _) = collect(&[page], &ListLimits::default());
        let offered: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((offered, list.left_out.len()), (names.to_vec(), 0));
    }

    #[test]
    fn tags_are_stripped_from_descriptions_and_schemas() {
        let page = json!({ "tools": [{
            "name": "t", "title": "T\u{e0041}", "description": "d\u{e0042}\u{e007f}",
            "inputSchema": { "properties": { "p\u{e0043}": { "description": "q\u{e0044}" } } },
        }] });
        let (list, _) = collect(&[page], &ListLimits::default());
        let tool = &list.tools[0];
        assert_eq!((tool.title.as_deref(), tool.description.as_str()), (Some("T"), "d"));
        assert_eq!(tool.input_schema["properties"], json!({ "p": { "description": "q" } }));
    }

    #[test]
    fn number_of_pages_is_bounded() {
        let limits = ListLimits { max_pages: 5, max_tools: 7, ..ListLimits::default() };
        let endless: Vec<Value> = (0..20).map(|n| json!({ "tools": [], "nextCursor": n.to_string() })).collect();
        let (list, taken) = collect(&endless, &limits);
        assert!(list.cut_short.is_some_and(|reason| reason.contains("pages")));
        assert_eq!(taken, 5);
        let circle = vec![json!({ "tools": [], "nextCursor": "a" }); 20];
        let (list, taken) = collect(&circle, &limits);
        assert!(list.cut_short.is_some_and(|reason| reason.contains("repeat")));
        assert_eq!(taken, 2);
        let many = json!({ "tools": (0..20).map(|n| tool(&n.to_string())).collect::<Vec<_>>(), "nextCursor": "a" });
        let (list, taken) = collect(&[many.clone(), many], &limits);
        assert_eq!((list.tools.len(), taken), (7, 1));
        assert_eq!(list.cut_short.as_deref(), Some("at least 13 more tools; the limit is 7 tools per server"));
    }

    #[test]
    fn descriptions_are_bounded_individually_and_in_total() {
        let limits = ListLimits { max_description_characters: 10, max_total_bytes: 100, ..ListLimits::default() };
        let tools: Vec<Value> = (0..50)
            .map(|n| json!({ "name": format!("t{n}"), "description": "ä\u{7}".repeat(5_000), "inputSchema": {} }))
            .collect();
        let (list, _) = collect(&[json!({ "tools": tools })], &limits);
        assert!(list.tools.len() < 10 && list.cut_short.is_some());
        assert_eq!(list.tools[0].description, "ä".repeat(10));
    }

    #[test]
    fn invalid_lists_are_rejected() {
        let limits = ListLimits::default();
        for page in [json!([]), json!({}), json!({ "tools": {} }), json!(null)] {
            assert!(Collector::new(&limits).add_page(page.clone()).is_err(), "{page}");
        }
    }
}
