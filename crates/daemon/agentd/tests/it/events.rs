//! The catalogue of events: its page in the guide is what the code says.

use std::fmt::Write as _;
use std::path::Path;

use agentd_core::events::{CATALOGUE, Category, Field, LIVE};
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

This page is written by `make events-guide` from the catalogue in `crates/daemon/core/src/events`; a test holds it against the \
code.
";

const STREAM: &str = "
## Following them

`GET /api/events/stream` shows what happens while it happens, as Server-Sent Events: one stream for a whole page. Each \
event has its type as `event` and the JSON above as `data`. `?types=task,alert.firing` chooses whole types and first parts \
of types.

- First comes `ready`. The `id` of an event is a place to go on from: sent as `Last-Event-ID` (or `?last_event_id=`) it \
leads to everything after it, at whichever daemon.
- `reset` says that something was missed which is not told any more: it is not kept, it is more than 10,000 events, or a \
backup was restored. Load anew what is shown.
- A comment comes every 15 seconds. Whoever reads too slowly is cut off, and goes on from the last `id`. The stream also \
ends with its credential and with the daemon.
- Of one credential 64 streams may be open, of all 512; one more is answered 429.

What follows here is told to streams alone, without an `id`, by the daemon at which it happens, and is not stored: no hook \
hears of it, and it is not told again after a break.
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
        Category::Approval => "What the owner is asked",
        Category::Backup => "Backups",
    }
}

fn guide() -> String {
    let mut page = INTRODUCTION.to_owned();
    for category in Category::ALL {
        writeln!(page, "\n## {}: `{}`", title(category), category.as_str()).expect("a string");
        for event in CATALOGUE.iter().filter(|event| event.category == category) {
            write_type(&mut page, event.name, event.fires, event.data);
        }
    }
    page.push_str(STREAM);
    for told in LIVE {
        write_type(&mut page, told.name, told.fires, told.data);
    }
    page
}

fn write_type(page: &mut String, name: &str, fires: &str, fields: &[Field]) {
    let example = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let data: Map<String, Value> = fields.iter().map(|field| (field.name.to_owned(), example(field.example))).collect();
    let data = serde_json::to_string_pretty(&json!(data)).expect("JSON");
    writeln!(page, "\n### `{name}`\n\n{fires}\n\n```json\n{data}\n```").expect("a string");
}

/// With `AGENTD_TEST_REWRITE` it writes the page instead.
#[test]
fn the_page_of_the_guide_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/events.md");
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        std::fs::write(&path, guide()).expect("the page is written");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == guide(), "docs/guide/events.md is not what the code says; run `make events-guide`");
}
