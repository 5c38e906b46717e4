//! Turns with tool calls.

mod answers;
mod approvals;
mod hostile_schemas;
mod parts;
mod strategy;
mod traces;
mod waking;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_engine::agents::Agent;
use agentd_engine::tools::{
    Author, Effect, InputSchema, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, ToolSource,
};
use agentd_llm::ToolCall;
use agentd_testing_llm::{Gate, Reply, Script};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, started};
use crate::support::request::{ServerEvent, token_text};

/// State shared by the tools of a test.
#[derive(Debug, Default)]
struct ToolState {
    runs: AtomicUsize,
    /// Current and maximum number of concurrent calls.
    running: AtomicUsize,
    max_running: AtomicUsize,
    gate: Option<Gate>,
}

/// A tool that repeats its input. Its name selects an additional behaviour.
#[derive(Debug)]
struct Echo {
    description: ToolDescription,
    state: Arc<ToolState>,
}

impl Tool for Echo {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Trusted
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let state = &self.state;
            state.runs.fetch_add(1, Ordering::SeqCst);
            let running = state.running.fetch_add(1, Ordering::SeqCst) + 1;
            state.max_running.fetch_max(running, Ordering::SeqCst);
            if let Some(gate) = &state.gate {
                gate.pass().await;
            }
            state.running.fetch_sub(1, Ordering::SeqCst);
            assert!(context.workspace.is_dir());
            match self.description.name.as_str() {
                "breaks" => Err(ToolError::Failed("the disk is on fire".to_owned())),
                "panics" => panic!("a tool that panics"),
                "hangs" => std::future::pending().await,
                "floods" => Ok(ToolOutput::text("x".repeat(2 << 20))),
                _ => Ok(ToolOutput::json(json!({"echo": input}))),
            }
        }
        .boxed()
    }
}

struct Source(Arc<ToolState>);

impl ToolSource for Source {
    fn name(&self) -> &'static str {
        "test"
    }

    fn tools<'a>(&'a self, _: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        let names = [
            ("look", Effect::Reads),
            ("act", Effect::Acts),
            ("breaks", Effect::Reads),
            ("panics", Effect::Reads),
            ("hangs", Effect::Reads),
            ("floods", Effect::Reads),
        ];
        let schema = json!({
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "additionalProperties": false,
        });
        let tool = |(name, effect): (&str, Effect)| {
            Arc::new(Echo {
                description: ToolDescription {
                    name: name.to_owned(),
                    description: "Repeats its input.".to_owned(),
                    input_schema: InputSchema::new(schema.clone()).expect("a schema"),
                    effect,
                    time_limit: Duration::from_millis(if name == "hangs" { 50 } else { 60_000 }),
                },
                state: Arc::clone(&self.0),
            }) as Arc<dyn Tool>
        };
        let tools = names.into_iter().map(tool).collect();
        async move { tools }.boxed()
    }
}

fn calls(calls: &[(&str, Value)]) -> Reply {
    let calls = calls.iter().enumerate();
    Reply::tool_calls(
        calls.map(|(index, (name, input))| ToolCall::new(format!("v{index}"), *name, input.clone())).collect(),
        TEST_USAGE,
    )
}

fn says(text: &str) -> Reply {
    Reply::text([text], TEST_USAGE)
}

struct Bench {
    fixture: ChatFixture,
    state: Arc<ToolState>,
}

impl Bench {
    async fn with(replies: Vec<Reply>) -> Self {
        Self::gated(replies, None).await
    }

    async fn gated(replies: Vec<Reply>, gate: Option<Gate>) -> Self {
        // Replies are used in order; the last one repeats.
        let request_count = AtomicUsize::new(0);
        let script = Script::by(move |_| {
            let nth = request_count.fetch_add(1, Ordering::SeqCst);
            replies[nth.min(replies.len() - 1)].clone()
        });
        let fixture = ChatFixture::with(script).await;
        let state = Arc::new(ToolState { gate, ..ToolState::default() });
        register_tools(&fixture.app, &state);
        Self { fixture, state }
    }

    /// Returns the body of a vendor request.
    fn request(&self, number: usize) -> Value {
        self.fixture.vendor.requests()[number].body.clone()
    }

    fn runs(&self) -> usize {
        self.state.runs.load(Ordering::SeqCst)
    }

    /// Restarts the daemon on the same data and registers the tools again.
    async fn restart(&mut self) {
        self.fixture.app.restart().await;
        register_tools(&self.fixture.app, &self.state);
    }

    async fn conversation(&self, fields: Value) -> String {
        let made =
            self.fixture.app.post("/api/chat/conversations").json(&fields).send().await.expect_status(201).json();
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn pending(&self) -> Vec<Value> {
        let list = self.fixture.app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
        list["approvals"].as_array().expect("a list").clone()
    }

    async fn answer(&self, id: &Value, answer: Value) -> u16 {
        let path = format!("/api/chat/approvals/{}", id.as_str().expect("an id"));
        self.fixture.app.post(&path).json(&answer).send().await.status.as_u16()
    }

    /// Reads the file that stores a long result.
    fn read_stored_output(&self, output: &Value) -> String {
        let path = output["kept_in"].as_str().expect("a file");
        let path = self.fixture.app.data_dir().join("agents/scout").join(path);
        std::fs::read_to_string(path).expect("the whole result")
    }

    /// Returns the message of the reply as its conversation shows it.
    async fn stored_reply(&self, events: &[ServerEvent]) -> Value {
        let conversation = self.fixture.conversation(&started(events, "conversation_id")).await;
        conversation["messages"].as_array().expect("messages").last().expect("a reply").clone()
    }
}

fn register_tools(app: &TestApp, state: &Arc<ToolState>) {
    app.tools.add(Arc::new(Source(Arc::clone(state))));
}

/// Disables the sandbox, so that code runs on every machine.
async fn without_sandbox(bench: &Bench) {
    bench.fixture.app.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
}

fn kinds(events: &[ServerEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

fn last(events: &[ServerEvent]) -> &ServerEvent {
    events.last().expect("events")
}

#[tokio::test]
async fn tool_result_leads_to_the_answer() {
    let bench = Bench::with(vec![calls(&[("look", json!({"word": "a"}))]), says("It is a.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "What is it?"})).await;
    assert_eq!(kinds(&events), ["start", "tool_use", "tool_result", "token", "done"]);
    assert_eq!((&events[1].data["tool"], &events[1].data["input"]), (&json!("look"), &json!({"word": "a"})));
    assert_eq!(events[2].data["output"], json!({"echo": {"word": "a"}}));
    // The usage of two model calls is added up.
    assert_eq!((&events[4].data["input_tokens"], &events[4].data["output_tokens"]), (&json!(14), &json!(6)));
    assert_eq!(bench.fixture.usage().await.len(), 2);
    let reply = bench.stored_reply(&events).await;
    assert_eq!((&reply["content"], &reply["status"]), (&json!("It is a."), &json!("complete")));
    let call = &reply["tool_calls"][0];
    assert_eq!((&call["tool"], &call["status"]), (&json!("look"), &json!("done")));
    assert_eq!(call["output"], json!({"echo": {"word": "a"}}));
    // The model receives its own call and the result with the same id.
    let next_request = bench.request(1);
    let messages = next_request["messages"].as_array().expect("messages").clone();
    let result = messages.last().expect("a result");
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("v0")));
    assert_eq!(messages[messages.len() - 2]["tool_calls"][0]["id"], "v0");
}

#[tokio::test]
async fn next_turn_includes_earlier_tool_calls() {
    let replies = vec![calls(&[("look", json!({"word": "a"}))]), says("It is a."), says("Still a.")];
    let bench = Bench::with(replies).await;
    let events = bench.fixture.exchange(&json!({"content": "What is it?"})).await;
    let again = json!({"content": "And now?", "conversation_id": started(&events, "conversation_id")});
    bench.fixture.exchange(&again).await;
    let request = bench.request(2);
    let messages = request["messages"].as_array().expect("messages");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert!(messages[3]["content"].as_str().expect("text").contains("echo"));
    // In chat mode earlier calls are described in text, because vendors reject tool calls without tools.
    let path = format!("/api/chat/conversations/{}/mode", started(&events, "conversation_id"));
    bench.fixture.app.patch(&path).json(&json!({"mode": "chat"})).send().await.expect_status(200);
    bench.fixture.exchange(&again).await;
    let body = bench.request(3);
    assert!(body.get("tools").is_none(), "{body}");
    assert!(!body.to_string().contains("tool_calls") && body.to_string().contains("[used look:"), "{body}");
}

#[tokio::test]
async fn calls_of_one_answer_run_concurrently_and_return_in_order() {
    let gate = Gate::new();
    let wanted: Vec<(&str, Value)> =
        ["a", "b", "c", "d", "e", "f", "g", "h"].iter().map(|word| ("look", json!({"word": word}))).collect();
    let bench = Bench::gated(vec![calls(&wanted), says("done")], Some(gate.clone())).await;
    let mut stream = bench.fixture.send(&json!({"content": "all"})).stream().await;
    let mut events = Vec::new();
    while kinds(&events).iter().filter(|kind| **kind == "tool_use").count() < 8 {
        events.push(stream.next().await.expect("next event"));
    }
    while bench.state.running.load(Ordering::SeqCst) < 8 {
        tokio::task::yield_now().await;
    }
    gate.open();
    events.extend(stream.collect().await);
    assert_eq!(last(&events).event, "done");
    assert_eq!(bench.state.max_running.load(Ordering::SeqCst), 8);
    let request = bench.request(1);
    let messages = request["messages"].as_array().expect("messages");
    let ids: Vec<&str> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"]);
}

#[tokio::test]
async fn invalid_calls_and_failing_tools_do_not_end_the_turn() {
    let wrong = [
        ("nothing_like_it", json!({})),
        ("look", json!({"word": 1})),
        ("look", json!({"other": "x"})),
        ("breaks", json!({})),
        ("panics", json!({})),
        ("hangs", json!({})),
        ("floods", json!({})),
    ];
    let bench = Bench::with(vec![calls(&wrong), says("Sorry.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(last(&events).event, "done", "{events:?}");
    let reply = bench.stored_reply(&events).await;
    let sentence = |index: usize| reply["tool_calls"][index]["output"]["error"].as_str().unwrap_or_default().to_owned();
    assert!(sentence(0).contains("unknown tool") && sentence(0).contains("look"), "{}", sentence(0));
    assert!(sentence(1).contains("word") && sentence(2).contains("other"));
    assert!(sentence(3).contains("on fire") && sentence(4).contains("crashed"));
    assert!(sentence(5).contains("did not answer within"));
    let flood = &reply["tool_calls"][6];
    assert_eq!(flood["status"], "done");
    assert!(flood["output"]["left_out"].as_str().expect("a note").contains("bytes"));
    let next_request = bench.request(1).to_string();
    assert!(next_request.len() < 100_000 && next_request.contains("bytes after them, were left out"));
    let whole = flood["output"]["kept_in"].as_str().expect("a file");
    let file = bench.fixture.app.data_dir().join("agents/scout").join(whole);
    assert!(std::fs::metadata(file).expect("the whole result").len() >= 2 << 20);
}

#[tokio::test]
async fn file_of_a_long_result_contains_the_whole_output() {
    let wanted = [("shell", json!({"command": "seq 1 40000"}))];
    let bench = Bench::with(vec![calls(&wanted), says("Counted.")]).await;
    without_sandbox(&bench).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let reply = bench.stored_reply(&events).await;
    let output = &reply["tool_calls"][0]["output"];
    let shown = output["stdout"].as_str().expect("a text");
    assert!(shown.contains("bytes left out]") && !shown.contains("\n20000\n"), "the shown part is truncated");
    assert!(output.get("kept_part").is_none(), "the whole output is stored");
    let whole = bench.read_stored_output(output);
    assert!(whole.contains("\n1\n2\n") && whole.contains("\n20000\n20001\n") && whole.contains("\n40000\n"));
    let next_request = bench.request(1).to_string();
    assert!(next_request.len() < 100_000 && next_request.contains("read it with read_file"));
}

/// The code has already had side effects, so its result must not be lost.
#[tokio::test]
async fn long_result_of_a_python_tool_is_stored() {
    let wanted = [("rows", json!({})), ("huge", json!({}))];
    let bench = Bench::with(vec![calls(&wanted), says("Done.")]).await;
    without_sandbox(&bench).await;
    for (name, source) in [
        ("rows", "result = {'rows': ['row %d' % number for number in range(30_000)]}"),
        ("huge", "result = 'x' * 9_000_000"),
    ] {
        let tool = json!({"name": name, "description": "For tests.", "kind": "python", "source_code": source});
        bench.fixture.app.post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
    }
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let reply = bench.stored_reply(&events).await;
    let (rows, huge) = (&reply["tool_calls"][0], &reply["tool_calls"][1]);
    assert_eq!((&rows["status"], &huge["status"]), (&json!("done"), &json!("failed")));
    let whole = bench.read_stored_output(&rows["output"]);
    assert!(whole.contains("\"row 0\"") && whole.contains("\"row 29999\""));
    let error = huge["output"]["error"].as_str().expect("a sentence");
    assert!(error.contains("ran to its end") && error.contains("return its name"), "{error}");
}

/// A call that a vendor rejects once would be rejected in every later turn.
#[tokio::test]
async fn calls_are_sent_back_in_a_form_that_vendors_accept() {
    let long = "x".repeat(5_000);
    let invented: Vec<ToolCall> = ["functions.shell", "sh\nell", long.as_str(), "look"]
        .iter()
        .map(|name| ToolCall::new("same", *name, json!({})))
        .collect();
    let again = Reply::tool_calls(vec![ToolCall::new("same", "look", json!({}))], TEST_USAGE);
    let replies = vec![Reply::tool_calls(invented, TEST_USAGE), again, says("Sorry."), says("Yes.")];
    let bench = Bench::with(replies).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(last(&events).event, "done", "{events:?}");
    assert_eq!(
        bench.stored_reply(&events).await["tool_calls"][0]["tool"],
        "functions.shell",
        "shown as the model wrote it"
    );
    let next = json!({"content": "And now?", "conversation_id": started(&events, "conversation_id")});
    bench.fixture.exchange(&next).await;
    for number in 1..4 {
        let request = bench.request(number);
        let messages = request["messages"].as_array().expect("messages");
        let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
        let calls: Vec<(&str, &str)> = calls
            .map(|call| (call["id"].as_str().expect("an id"), call["function"]["name"].as_str().expect("a name")))
            .collect();
        let names: Vec<&str> = calls.iter().map(|(_, name)| *name).collect();
        assert_eq!(names[..4], ["functions_shell", "sh_ell", &long[..64], "look"]);
        let answered: Vec<&str> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
        let ids: Vec<&str> = calls.iter().map(|(id, _)| *id).collect();
        assert_eq!(answered, ids);
        let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
    }
}

#[tokio::test]
async fn double_encoded_arguments_are_decoded() {
    let twice = json!({"word": "a"}).to_string();
    let written = [("look", json!(twice)), ("look", json!("just words"))];
    let bench = Bench::with(vec![calls(&written), says("Seen.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let reply = bench.stored_reply(&events).await;
    assert_eq!(reply["tool_calls"][0]["output"], json!({"echo": {"word": "a"}}));
    assert_eq!(reply["tool_calls"][1]["status"], "failed");
    // Both are sent back as objects, as vendors require.
    let request = bench.request(1);
    let messages = request["messages"].as_array().expect("messages");
    let back = messages.iter().find_map(|message| message["tool_calls"].as_array()).expect("the calls");
    let arguments = back.iter().map(|call| call["function"]["arguments"].as_str().expect("a text"));
    let arguments: Vec<Value> = arguments.map(|text| serde_json::from_str(text).expect("JSON")).collect();
    assert_eq!(arguments, [json!({"word": "a"}), json!({"arguments": "just words"})]);
}

#[tokio::test]
async fn call_without_offered_tools_is_answered_with_an_error_text() {
    let bench = Bench::with(vec![calls(&[("shell", json!({}))]), says("In words, then.")]).await;
    let id = bench.conversation(json!({"mode": "chat"})).await;
    let events = bench.fixture.exchange(&json!({"content": "go", "conversation_id": id})).await;
    assert_eq!((last(&events).event.as_str(), token_text(&events).as_str()), ("done", "In words, then."));
    let next_request = bench.request(1).to_string();
    assert!(next_request.contains("no tools are available") && !next_request.contains("tool_calls"), "{next_request}");
    // A model that only calls tools is stopped as well.
    let stubborn = Bench::with(vec![calls(&[("shell", json!({}))])]).await;
    let id = stubborn.conversation(json!({"mode": "chat"})).await;
    stubborn
        .fixture
        .app
        .put("/api/settings/agent")
        .json(&json!({"max_tool_rounds": 2}))
        .send()
        .await
        .expect_status(200);
    let events = stubborn.fixture.exchange(&json!({"content": "go", "conversation_id": id})).await;
    assert_eq!((last(&events).event.as_str(), &last(&events).data["code"]), ("error", &json!("tool_limit")));
}

#[tokio::test]
async fn tool_rounds_are_limited() {
    let bench = Bench::with(vec![calls(&[("look", json!({}))])]).await;
    bench.fixture.app.put("/api/settings/agent").json(&json!({"max_tool_rounds": 3})).send().await.expect_status(200);
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let end = last(&events);
    assert_eq!((end.event.as_str(), &end.data["code"]), ("error", &json!("tool_limit")));
    assert_eq!(bench.runs(), 3);
    assert_eq!(bench.fixture.usage().await.len(), 4);
    assert_eq!(bench.stored_reply(&events).await["tool_calls"].as_array().expect("calls").len(), 3);
}

#[tokio::test]
async fn mode_determines_the_offered_tools() {
    let bench = Bench::with(vec![says("ok")]).await;
    let is_builtin = |name: &str| {
        ["memory_", "schedule_", "browser_"].iter().any(|domain| name.starts_with(domain))
            || name.contains("_file")
            || matches!(name, "shell" | "python" | "http_fetch")
    };
    for (mode, expected, writes) in [("chat", 0, false), ("plan", 5, false), ("agent", 6, true)] {
        let id = bench.conversation(json!({"mode": mode})).await;
        bench.fixture.exchange(&json!({"content": "go", "conversation_id": id})).await;
        let count = bench.fixture.vendor.requests().len();
        let tools = bench.request(count - 1)["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().or(tool["name"].as_str()).expect("a name"))
            .collect();
        assert_eq!(names.iter().filter(|name| !is_builtin(name)).count(), expected, "{mode}: {names:?}");
        assert_eq!(names.contains(&"read_file"), mode != "chat", "{mode}: {names:?}");
        assert_eq!(names.contains(&"write_file"), writes, "{mode}: {names:?}");
    }
}
