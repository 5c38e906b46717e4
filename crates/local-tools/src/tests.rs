//! The whole decision, as its users see it: which tool, with which input, or none.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{PastCall, Plan, ToolSpec, decide, refusal};

fn tool(name: &str, description: &str, input_schema: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema }
}

fn text_parameters(names: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// A small house: no tool of the daemon's own, and names in several styles.
fn tools() -> Vec<ToolSpec> {
    vec![
        tool("read_file", "Read a text file.", text_parameters(&["path"])),
        tool("write_file", "Write a text file.", text_parameters(&["path", "content"])),
        tool("delete-file", "Deletes a file for good.", text_parameters(&["path"])),
        tool("fetchPage", "Fetch a web page.", text_parameters(&["url"])),
        tool("get_weather", "Get the weather forecast for a city.", text_parameters(&["city"])),
        tool("player", "Plays music. \"put on some jazz\", \"next song\"", json!({"type": "object", "properties": {}})),
        tool(
            "set_timer",
            "Set a timer.",
            json!({"type": "object", "properties": {
                "seconds": {"type": "integer", "minimum": 1, "maximum": 86_400},
                "sound": {"enum": ["bell", "gong"]},
            }, "required": ["seconds"]}),
        ),
        tool("python", "Run Python code.", text_parameters(&["code"])),
    ]
}

fn decided(message: &str) -> Option<(String, Value, usize)> {
    decide(&tools(), message, &[]).map(|plan| (plan.tool.clone(), Value::Object(plan.values.clone()), plan.open.len()))
}

fn called(message: &str) -> Option<(String, Value)> {
    decided(message).filter(|(_, _, open)| *open == 0).map(|(tool, input, _)| (tool, input))
}

/// The daemon's own tools, as it describes them; a test of the daemon holds the file to that.
fn builtin_tools() -> Vec<ToolSpec> {
    let described: Vec<Value> = serde_json::from_str(include_str!("../../../bench/data/builtin_tools.json")).unwrap();
    let text = |tool: &Value, field: &str| tool[field].as_str().unwrap().to_owned();
    described
        .iter()
        .map(|described| {
            tool(&text(described, "name"), &text(described, "description"), described["input_schema"].clone())
        })
        .collect()
}

#[test]
fn the_daemons_own_tools_are_called() {
    let tools = builtin_tools();
    for (message, name, input) in [
        (
            "Write hello world into greeting.txt",
            "write_file",
            json!({"path": "greeting.txt", "content": "hello world"}),
        ),
        (
            "Create a file called ideas.md with the text: build a treehouse",
            "write_file",
            json!({"path": "ideas.md", "content": "build a treehouse"}),
        ),
        ("Save \"done\" to logs/today.txt", "write_file", json!({"path": "logs/today.txt", "content": "done"})),
        ("Read notes.txt", "read_file", json!({"path": "notes.txt"})),
        ("Show me the files", "list_files", json!({})),
        ("List the files", "list_files", json!({})),
        ("Show me what is inside the folder photos", "list_files", json!({"path": "photos"})),
        ("Search the files for \"invoice\"", "search_files", json!({"pattern": "invoice"})),
        (
            "Change the word cat to dog in story.txt",
            "edit_file",
            json!({"path": "story.txt", "old_text": "cat", "new_text": "dog"}),
        ),
        ("Fetch https://example.com/", "http_fetch", json!({"url": "https://example.com/"})),
    ] {
        let plan = decide(&tools, message, &[]).filter(|plan| plan.is_complete());
        let made = plan.map(|plan| (plan.tool.clone(), Value::Object(plan.values)));
        assert_eq!(made, Some((name.to_owned(), input)), "{message}");
    }
}

/// The tasks of the benchmark, as far as no model is needed: which tool, if any.
#[test]
fn the_tasks_of_the_benchmark_find_their_tools() {
    let suite: Value = serde_json::from_str(include_str!("../../../bench/data/local_tools.json")).unwrap();
    let text = |value: &Value, field: &str| value[field].as_str().unwrap().to_owned();
    let tasks = suite["tasks"].as_array().unwrap();
    let mut wrong = Vec::new();
    for task in tasks {
        let mut offered = builtin_tools();
        let others = suite["tools"].as_array().unwrap().iter();
        let others = others.filter(|other| other["only"].is_null() || other["only"] == task["half"]);
        offered.extend(
            others.map(|other| tool(&text(other, "name"), &text(other, "description"), other["input_schema"].clone())),
        );
        let past = task["after"].as_array().into_iter().flatten().map(|past| PastCall {
            name: text(past, "tool"),
            input: past["input"].clone(),
            result: text(past, "result"),
            failed: false,
        });
        let made = decide(&offered, &text(task, "say"), &past.collect::<Vec<_>>()).map(|plan| plan.tool);
        if made.as_deref() != task["tool"].as_str() {
            assert!(!task["tool"].is_null(), "{} calls {made:?}", task["say"]);
            wrong.push(format!("{}: {made:?}", task["say"]));
        }
    }
    assert!(wrong.len() * 8 <= tasks.len(), "{} of {}: {wrong:#?}", wrong.len(), tasks.len());
}

#[test]
fn what_stands_in_the_message_is_the_input() {
    for (message, name, input) in [
        ("Read notes.txt", "read_file", json!({"path": "notes.txt"})),
        ("Could you delete old/plan.md please?", "delete-file", json!({"path": "old/plan.md"})),
        ("Open https://example.com/a?b=1 and summarize it", "fetchPage", json!({"url": "https://example.com/a?b=1"})),
        ("Is it raining in Lisbon?", "get_weather", json!({"city": "Lisbon"})),
        ("Write \"a, b\" to list.csv", "write_file", json!({"path": "list.csv", "content": "a, b"})),
        ("Set a timer for 2 minutes with a gong", "set_timer", json!({"seconds": 120, "sound": "gong"})),
        ("Run this with python: print('x')", "python", json!({"code": "print('x')"})),
        ("put on some jazz please", "player", json!({})),
    ] {
        assert_eq!(called(message), Some((name.to_owned(), input)), "{message}");
    }
}

#[test]
fn what_is_no_request_for_a_tool_calls_none() {
    for message in [
        "",
        "   ",
        "Hello!",
        "Why is the sky blue?",
        "How do I read a file?",
        "Tell me a joke",
        "Don't delete notes.txt",
        "What is a web page?",
        "I like jazz",
        "Write a poem",
        "Who invented the weather forecast?",
        "Thanks!",
        "???",
    ] {
        assert_eq!(decided(message), None, "{message}");
    }
}

#[test]
fn what_must_be_made_up_is_left_to_the_model_and_only_when_told_to() {
    let (tool, input, open) = decided("Write a short poem about rain to rain.txt").unwrap();
    assert_eq!((tool.as_str(), input, open), ("write_file", json!({"path": "rain.txt"}), 1));
    assert_eq!(decided("Use Python to count to ten").unwrap().2, 1);
    assert_eq!(decided("Is Python good for counting to ten?"), None);
}

#[test]
fn steps_are_taken_in_order_and_never_twice() {
    let message = "Read a.txt, then write it to b.txt and then delete a.txt";
    let mut past: Vec<PastCall> = Vec::new();
    let mut made = Vec::new();
    while let Some(Plan { tool, values, .. }) = decide(&tools(), message, &past) {
        let input = Value::Object(values);
        made.push((tool.clone(), input.clone()));
        past.push(PastCall { name: tool, input, result: "what a.txt holds".to_owned(), failed: false });
        assert!(past.len() < 10);
    }
    assert_eq!(
        made,
        [
            ("read_file".to_owned(), json!({"path": "a.txt"})),
            ("write_file".to_owned(), json!({"path": "b.txt", "content": "what a.txt holds"})),
            ("delete-file".to_owned(), json!({"path": "a.txt"})),
        ]
    );
    let one = decide(&tools(), "Write \"x\" to a.txt and then leave it alone", &[]).unwrap();
    assert_eq!(one.tool, "write_file");
    past.truncate(1);
    past[0].failed = true;
    assert!(decide(&tools(), message, &past).is_none());
}

#[test]
fn a_tool_whose_schema_cannot_be_filled_is_left_out_alone() {
    let mut offered = vec![
        tool(
            "read_file",
            "Read a text file.",
            json!({"type": "object", "properties": {"path": {"$ref": "https://example.com/x"}}, "required": ["path"]}),
        ),
        tool("read_file_2", "Read a text file.", json!("no schema")),
        tool(
            "read_file_3",
            "Read a text file.",
            json!({"type": "object", "properties": {"path": {"type": "string", "pattern": "("}}, "required": ["path"]}),
        ),
    ];
    assert!(offered.iter().all(|tool| refusal(tool).is_some()));
    assert!(decide(&offered, "Read notes.txt", &[]).is_none());
    offered.extend(tools());
    assert_eq!(decide(&offered, "Read notes.txt", &[]).unwrap().tool, "read_file");
}

#[test]
fn an_input_that_the_schema_refuses_is_not_called() {
    let strict = |pattern: &str| {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string", "pattern": pattern}}, "required": ["path"]});
        decide(&[tool("read_file", "Read a text file.", schema)], "Read notes.txt", &[]).is_some()
    };
    assert!(strict("\\.txt$"));
    assert!(!strict("\\.md$"));
}

#[test]
fn the_largest_requests_come_to_an_end_and_call_nothing() {
    let mut offered = Vec::new();
    for at in 0..40 {
        let names: Vec<String> = (0..12).map(|number| format!("parameter_{at}_{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        offered.push(tool(&format!("tool_{at}"), &"read the file ".repeat(500), text_parameters(&names)));
    }
    for message in ["read a/b.txt ".repeat(1200), "\"a\" ".repeat(4000), "(".repeat(16_000), "a.b, ".repeat(3200)] {
        assert!(decide(&offered, &message, &[]).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_message_is_decided_and_a_finished_input_is_valid(
        message in "((read|write|delete|open|run|set|what|how|weather|in|to|the|a|timer|5|gong|notes\\.txt|'x'|\"y z\"|https://a\\.b/c|and then|it|Oslo|:|\\?|,) ?){0,12}|\\PC{0,80}"
    ) {
        if let Some(plan) = decide(&tools(), &message, &[])
            && plan.is_complete()
        {
            let schema = tools().into_iter().find(|tool| tool.name == plan.tool).unwrap().input_schema;
            let input = Value::Object(plan.values.clone());
            prop_assert!(jsonschema::is_valid(&schema, &input), "{input}");
        }
    }

    #[test]
    fn any_schema_is_taken_or_refused(
        kind in "object|string|array|integer|null|x",
        limits in any::<(i64, u64, f64)>(),
        name in "\\PC{0,8}",
        message in "(read|set|it|to|5|-3|1e9|'q'|true|all|[a-z]{1,6}| ){0,10}",
    ) {
        let part = json!({"type": kind, "minimum": limits.0, "maxLength": limits.1, "maximum": limits.2, "items": {"type": kind}});
        let schema = json!({"type": "object", "properties": {name.clone(): part.clone(), "path": {"anyOf": [part]}}, "required": [name]});
        let offered = [tool("set_it", "Set it. \"set it\"", schema.clone())];
        if let Some(plan) = decide(&offered, &message, &[]) {
            for (parameter, _) in &plan.open {
                prop_assert!(agentd_inference::check_grammar_schema(&parameter.shape.grammar()).is_ok(), "{:?}", parameter.shape);
            }
            if plan.is_complete() {
                prop_assert!(jsonschema::is_valid(&schema, &Value::Object(plan.values)));
            }
        }
    }
}
