//! The catalogue of events: its page in the guide is what the code says.

use std::fmt::Write as _;
use std::path::Path;

use agentd::events::{CATALOGUE, Category};
use serde_json::{Map, Value, json};

const INTRODUCTION: &str = "\
# Events

What happens in the daemon that others may react to. An event is stored with the change that caused it, so it is never \
lost and never told of something that did not happen; whoever listens reads the events in their order. One is kept until \
everybody has read it, and for a week after that.

```json
{\"id\": \"evt_01k…\", \"type\": \"project.created\", \"timestamp\": \"2026-01-05T09:00:00.000Z\", \"data\": {…}}
```

That is also what a hook sends. Filters and templates name the fields by their path, such as `data.project_id`. `data` of \
a type may get more fields with a newer daemon; none goes away. Below each type stands an example of its `data`.

This page is written by `make events-guide` from the catalogue in `crates/agentd/src/events`; a test holds it against the \
code.
";

fn title(category: Category) -> &'static str {
    match category {
        Category::Task => "Turns of agents",
        Category::Project => "Projects",
        Category::Memory => "Memory",
        Category::Channel => "Messages to and from outside",
        Category::Scheduler => "Scheduler",
        Category::Webhook => "Inbound webhooks",
        Category::Alert => "Alerts",
    }
}

fn guide() -> String {
    let mut page = INTRODUCTION.to_owned();
    for category in Category::ALL {
        writeln!(page, "\n## {}: `{}`", title(category), category.as_str()).expect("a string");
        for event in CATALOGUE.iter().filter(|event| event.category == category) {
            let example = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            let data: Map<String, Value> =
                event.data.iter().map(|field| (field.name.to_owned(), example(field.example))).collect();
            let data = serde_json::to_string_pretty(&json!(data)).expect("JSON");
            writeln!(page, "\n### `{}`\n\n{}\n\n```json\n{data}\n```", event.name, event.fires).expect("a string");
        }
    }
    page
}

/// With `AGENTD_TEST_REWRITE` it writes the page instead.
#[test]
fn the_page_of_the_guide_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/events.md");
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        std::fs::write(&path, guide()).expect("the page is written");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == guide(), "docs/guide/events.md is not what the code says; run `make events-guide`");
}
