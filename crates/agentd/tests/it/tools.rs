//! Agents that act: rounds of tools, approvals, and what a restart in between leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd::agents::Agent;
use agentd::skills::{Effect, InputSchema, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, ToolSource};
use agentd_llm::fake::{Reply, Script};
use agentd_llm::{Gate, ToolCall};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::support::TestApp;
use crate::support::request::{ServerEvent, token_text};
use crate::support::talk::{COUNTED, Talk, started};

/// What the tools of a test did.
#[derive(Debug, Default)]
struct Workshop {
    runs: AtomicUsize,
    /// How many run at this moment, and how many did at most.
    now: AtomicUsize,
    most: AtomicUsize,
    gate: Option<Gate>,
}

/// A tool that repeats its input. Its name decides what it does besides.
#[derive(Debug)]
struct Echo {
    description: ToolDescription,
    workshop: Arc<Workshop>,
}

impl Tool for Echo {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let workshop = &self.workshop;
            workshop.runs.fetch_add(1, Ordering::SeqCst);
            let now = workshop.now.fetch_add(1, Ordering::SeqCst) + 1;
            workshop.most.fetch_max(now, Ordering::SeqCst);
            if let Some(gate) = &workshop.gate {
                gate.pass().await;
            }
            workshop.now.fetch_sub(1, Ordering::SeqCst);
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

struct Source(Arc<Workshop>);

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
                workshop: Arc::clone(&self.0),
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
        COUNTED,
    )
}

fn says(text: &str) -> Reply {
    Reply::text([text], COUNTED)
}

struct Bench {
    talk: Talk,
    workshop: Arc<Workshop>,
}

impl Bench {
    async fn with(replies: Vec<Reply>) -> Self {
        Self::gated(replies, None).await
    }

    async fn gated(replies: Vec<Reply>, gate: Option<Gate>) -> Self {
        // One after the other; the last again and again.
        let asked = AtomicUsize::new(0);
        let script = Script::by(move |_| {
            let nth = asked.fetch_add(1, Ordering::SeqCst);
            replies[nth.min(replies.len() - 1)].clone()
        });
        let talk = Talk::with(script).await;
        let workshop = Arc::new(Workshop { gate, ..Workshop::default() });
        offer(&talk.app, &workshop);
        Self { talk, workshop }
    }

    /// What the vendor was sent, by number.
    fn request(&self, number: usize) -> Value {
        self.talk.vendor.requests()[number].body.clone()
    }

    fn runs(&self) -> usize {
        self.workshop.runs.load(Ordering::SeqCst)
    }

    /// The same data in another life; the tools are there again.
    async fn restart(&mut self) {
        self.talk.app.restart().await;
        offer(&self.talk.app, &self.workshop);
    }

    async fn conversation(&self, fields: Value) -> String {
        let made = self.talk.app.post("/api/chat/conversations").json(&fields).send().await.expect_status(201).json();
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn pending(&self) -> Vec<Value> {
        let list = self.talk.app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
        list["approvals"].as_array().expect("a list").clone()
    }

    async fn answer(&self, id: &Value, answer: Value) -> u16 {
        let path = format!("/api/chat/approvals/{}", id.as_str().expect("an id"));
        self.talk.app.post(&path).json(&answer).send().await.status.as_u16()
    }

    /// The reply's message, as its conversation shows it.
    async fn kept(&self, events: &[ServerEvent]) -> Value {
        let conversation = self.talk.conversation(&started(events, "conversation_id")).await;
        conversation["messages"].as_array().expect("messages").last().expect("a reply").clone()
    }
}

fn offer(app: &TestApp, workshop: &Arc<Workshop>) {
    app.running().daemon.skills().register(Arc::new(Source(Arc::clone(workshop))));
}

fn kinds(events: &[ServerEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

fn last(events: &[ServerEvent]) -> &ServerEvent {
    events.last().expect("events")
}

#[tokio::test]
async fn a_tool_runs_and_its_result_leads_to_the_answer() {
    let bench = Bench::with(vec![calls(&[("look", json!({"word": "a"}))]), says("It is a.")]).await;
    let events = bench.talk.exchange(&json!({"content": "What is it?"})).await;
    assert_eq!(kinds(&events), ["start", "tool_use", "tool_result", "token", "done"]);
    assert_eq!((&events[1].data["tool"], &events[1].data["input"]), (&json!("look"), &json!({"word": "a"})));
    assert_eq!(events[2].data["output"], json!({"echo": {"word": "a"}}));
    // Two calls of the model, counted together.
    assert_eq!((&events[4].data["input_tokens"], &events[4].data["output_tokens"]), (&json!(14), &json!(6)));
    assert_eq!(bench.talk.usage().await.len(), 2);
    let kept = bench.kept(&events).await;
    assert_eq!((&kept["content"], &kept["status"]), (&json!("It is a."), &json!("complete")));
    let call = &kept["tool_calls"][0];
    assert_eq!((&call["tool"], &call["status"]), (&json!("look"), &json!("done")));
    assert_eq!(call["output"], json!({"echo": {"word": "a"}}));
    // What the model was told: its own call, and the result under the same id.
    let told = bench.request(1);
    let messages = told["messages"].as_array().expect("messages").clone();
    let result = messages.last().expect("a result");
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("v0")));
    assert_eq!(messages[messages.len() - 2]["tool_calls"][0]["id"], "v0");
}

#[tokio::test]
async fn the_next_turn_remembers_what_was_done() {
    let replies = vec![calls(&[("look", json!({"word": "a"}))]), says("It is a."), says("Still a.")];
    let bench = Bench::with(replies).await;
    let events = bench.talk.exchange(&json!({"content": "What is it?"})).await;
    let again = json!({"content": "And now?", "conversation_id": started(&events, "conversation_id")});
    bench.talk.exchange(&again).await;
    let request = bench.request(2);
    let messages = request["messages"].as_array().expect("messages");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert!(messages[3]["content"].as_str().expect("text").contains("echo"));
    // A conversation without tools tells the same in words, because vendors refuse calls there.
    let path = format!("/api/chat/conversations/{}/mode", started(&events, "conversation_id"));
    bench.talk.app.patch(&path).json(&json!({"mode": "chat"})).send().await.expect_status(200);
    bench.talk.exchange(&again).await;
    let body = bench.request(3);
    assert!(body.get("tools").is_none(), "{body}");
    assert!(!body.to_string().contains("tool_calls") && body.to_string().contains("[used look:"), "{body}");
}

#[tokio::test]
async fn calls_of_one_answer_run_side_by_side_and_answer_in_order() {
    let gate = Gate::new();
    let wanted: Vec<(&str, Value)> =
        ["a", "b", "c", "d", "e", "f", "g", "h"].iter().map(|word| ("look", json!({"word": word}))).collect();
    let bench = Bench::gated(vec![calls(&wanted), says("done")], Some(gate.clone())).await;
    let mut stream = bench.talk.send(&json!({"content": "all"})).stream().await;
    let mut events = Vec::new();
    while kinds(&events).iter().filter(|kind| **kind == "tool_use").count() < 8 {
        events.push(stream.next().await.expect("the stream goes on"));
    }
    while bench.workshop.now.load(Ordering::SeqCst) < 8 {
        tokio::task::yield_now().await;
    }
    gate.open();
    events.extend(stream.collect().await);
    assert_eq!(last(&events).event, "done");
    assert_eq!(bench.workshop.most.load(Ordering::SeqCst), 8);
    let request = bench.request(1);
    let messages = request["messages"].as_array().expect("messages");
    let ids: Vec<&str> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"]);
}

#[tokio::test]
async fn whatever_a_model_or_a_tool_does_wrong_the_turn_goes_on() {
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
    let events = bench.talk.exchange(&json!({"content": "go"})).await;
    assert_eq!(last(&events).event, "done", "{events:?}");
    let kept = bench.kept(&events).await;
    let sentence = |index: usize| kept["tool_calls"][index]["output"]["error"].as_str().unwrap_or_default().to_owned();
    assert!(sentence(0).contains("no such tool") && sentence(0).contains("look"), "{}", sentence(0));
    assert!(sentence(1).contains("word") && sentence(2).contains("other"));
    assert!(sentence(3).contains("on fire") && sentence(4).contains("broke down"));
    assert!(sentence(5).contains("did not answer within"));
    let flood = &kept["tool_calls"][6];
    assert_eq!(flood["status"], "done");
    assert!(flood["output"]["left_out"].as_str().expect("a note").contains("bytes"));
    let told = bench.request(1).to_string();
    assert!(told.len() < 100_000 && told.contains("more characters were left out"));
    let whole = flood["output"]["kept_in"].as_str().expect("a file");
    let file = bench.talk.app.data_dir().join("agents/scout").join(whole);
    assert!(std::fs::metadata(file).expect("the whole result").len() >= 2 << 20);
}

#[tokio::test]
async fn rounds_are_limited() {
    let bench = Bench::with(vec![calls(&[("look", json!({}))])]).await;
    bench.talk.app.put("/api/settings/agent").json(&json!({"max_tool_rounds": 3})).send().await.expect_status(200);
    let events = bench.talk.exchange(&json!({"content": "go"})).await;
    let end = last(&events);
    assert_eq!((end.event.as_str(), &end.data["code"]), ("error", &json!("tool_limit")));
    assert_eq!(bench.runs(), 3);
    assert_eq!(bench.talk.usage().await.len(), 4);
    assert_eq!(bench.kept(&events).await["tool_calls"].as_array().expect("calls").len(), 3);
}

#[tokio::test]
async fn modes_decide_what_is_offered() {
    let bench = Bench::with(vec![says("ok")]).await;
    let is_builtin = |name: &str| {
        ["memory_", "schedule_"].iter().any(|domain| name.starts_with(domain))
            || name.contains("_file")
            || matches!(name, "shell" | "python" | "http_fetch")
    };
    for (mode, expected, writes) in [("chat", 0, false), ("plan", 5, false), ("agent", 6, true)] {
        let id = bench.conversation(json!({"mode": mode})).await;
        bench.talk.exchange(&json!({"content": "go", "conversation_id": id})).await;
        let count = bench.talk.vendor.requests().len();
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

#[tokio::test]
async fn what_was_approved_is_what_runs() {
    let input = json!({"word": "exactly this"});
    let bench = Bench::with(vec![calls(&[("look", json!({})), ("act", input.clone())]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let mut stream = bench.talk.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let mut events = Vec::new();
    while !kinds(&events).contains(&"approval_request") || !kinds(&events).contains(&"tool_result") {
        events.push(stream.next().await.expect("the stream goes on"));
    }
    assert_eq!(bench.runs(), 1, "what only reads does not ask");
    let pending = bench.pending().await;
    assert_eq!((pending.len(), &pending[0]["tool"], &pending[0]["input"]), (1, &json!("act"), &input));
    let asked = events.iter().find(|event| event.event == "approval_request").expect("it asks");
    assert_eq!((&asked.data["approval_id"], &asked.data["input"]), (&pending[0]["id"], &input));
    assert_eq!(asked.data["input_sha256"], pending[0]["input_sha256"]);
    // The conversation is busy meanwhile.
    bench
        .talk
        .send(&json!({"content": "more", "conversation_id": id}))
        .send()
        .await
        .expect_error(409, "turn_in_progress");
    let path = format!("/api/chat/conversations/{id}/approval-response");
    let answer = json!({"approval_id": pending[0]["id"], "decision": "approve"});
    let other = bench.conversation(json!({})).await;
    let foreign = format!("/api/chat/conversations/{other}/approval-response");
    bench.talk.app.post(&foreign).json(&answer).send().await.expect_error(404, "approval_not_found");
    let decided = bench.talk.app.post(&path).json(&answer).send().await.expect_status(200).json();
    assert_eq!(decided["status"], "approved");
    events.extend(stream.collect().await);
    assert_eq!(last(&events).event, "done");
    assert_eq!(token_text(&events), "Done.");
    assert_eq!(bench.runs(), 2);
    bench.talk.app.post(&path).json(&answer).send().await.expect_error(409, "approval_answered");
    assert_eq!(bench.answer(&json!("appr_unknown"), json!({"decision": "approve"})).await, 404);
    let kept = bench.kept(&events).await;
    assert_eq!(kept["tool_calls"][1]["output"], json!({"echo": input}));
}

#[tokio::test]
async fn a_rejection_is_told_to_the_model() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Then not.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.talk.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "reject", "reason": "too risky"})).await, 200);
    let events = stream.collect().await;
    assert_eq!(kinds(&events), ["start", "approval_request", "tool_result", "token", "done"]);
    assert_eq!(bench.runs(), 0);
    assert!(bench.request(1).to_string().contains("the owner said no: too risky"));
    assert_eq!(bench.kept(&events).await["tool_calls"][0]["status"], "rejected");
}

async fn wait_for_pending(bench: &Bench) -> Value {
    loop {
        if let Some(first) = bench.pending().await.first() {
            return first.clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn named_tools_always_ask() {
    let bench = Bench::with(vec![calls(&[("look", json!({}))]), says("ok")]).await;
    bench
        .talk
        .app
        .put("/api/settings/security")
        .json(&json!({"approval_tools": ["lo*"]}))
        .send()
        .await
        .expect_status(200);
    let stream = bench.talk.send(&json!({"content": "go"})).stream().await;
    let pending = wait_for_pending(&bench).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    assert_eq!(last(&stream.collect().await).event, "done");
}

#[tokio::test]
async fn a_pending_approval_survives_a_restart() {
    let mut bench = Bench::with(vec![calls(&[("act", json!({"word": "w"}))]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.talk.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    let session = pending["session_id"].as_str().expect("a session").to_owned();
    wait_until_parked(&bench, &session).await;
    drop(stream);
    bench.restart().await;
    assert_eq!(bench.pending().await, std::slice::from_ref(&pending));
    let conversation = bench.talk.conversation(&id).await;
    assert_eq!(conversation["messages"][1]["status"], "running");
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    let events = bench.talk.follow(&session).stream().await.collect().await;
    assert_eq!(kinds(&events), ["start", "approval_request", "tool_use", "tool_result", "token", "done"]);
    assert_eq!(bench.runs(), 1);
}

async fn wait_until_parked(bench: &Bench, session: &str) {
    let db = &bench.talk.app.running().ground().db;
    loop {
        let mut read = db.read().await.expect("a connection");
        let sql = "SELECT 1 FROM sessions WHERE id = $1 AND waiting_since IS NOT NULL";
        if read.fetch_optional(sql, agentd_store::args![session]).await.expect("a row").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_approval_expires() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Nobody said yes.")]).await;
    let ttl = json!({"approval_ttl_seconds": 60});
    bench.talk.app.put("/api/settings/security").json(&ttl).send().await.expect_status(200);
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.talk.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.talk.app.clock.advance(Duration::from_secs(61));
    let late = format!("/api/chat/approvals/{}", pending["id"].as_str().expect("an id"));
    let answer = json!({"decision": "approve"});
    bench.talk.app.post(&late).json(&answer).send().await.expect_error(409, "approval_answered");
    bench.talk.app.run_workers().await;
    let events = stream.collect().await;
    assert_eq!(last(&events).event, "done");
    assert_eq!(bench.runs(), 0);
    assert_eq!(bench.kept(&events).await["tool_calls"][0]["status"], "expired");
}

#[tokio::test]
async fn a_waiting_turn_can_be_cancelled_and_its_conversation_deleted() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))])]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let send = json!({"content": "go", "conversation_id": id});
    let stream = bench.talk.send(&send).stream().await;
    let pending = wait_for_pending(&bench).await;
    let session = pending["session_id"].as_str().expect("a session").to_owned();
    wait_until_parked(&bench, &session).await;
    let path = format!("/api/chat/sessions/{session}/cancel");
    let cancelled = bench.talk.app.post(&path).send().await.expect_status(200).json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(last(&stream.collect().await).data["code"], "cancelled");
    assert!(bench.pending().await.is_empty());
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 409);
    assert_eq!(bench.runs(), 0);
    // The same again, and away with it all.
    let stream = bench.talk.send(&send).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.talk.app.delete(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200);
    drop(stream);
    bench.talk.app.run_workers().await;
    assert!(bench.pending().await.is_empty());
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 404);
}

#[tokio::test]
async fn a_cancelled_tool_is_marked_and_never_run_again() {
    let gate = Gate::new();
    let bench = Bench::gated(vec![calls(&[("act", json!({}))])], Some(gate.clone())).await;
    let mut stream = bench.talk.send(&json!({"content": "go"})).stream().await;
    let mut events = vec![stream.next().await.expect("start"), stream.next().await.expect("tool_use")];
    let session = started(&events, "session_id");
    bench.talk.app.post(&format!("/api/chat/sessions/{session}/cancel")).send().await.expect_status(200);
    events.extend(stream.collect().await);
    assert_eq!(last(&events).data["code"], "cancelled");
    let kept = bench.kept(&events).await;
    assert_eq!((&kept["status"], &kept["tool_calls"][0]["status"]), (&json!("cancelled"), &json!("unknown")));
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_plan_goes_before_the_deed() {
    let bench = Bench::with(vec![says("1. look"), calls(&[("look", json!({}))]), says("Seen.")]).await;
    bench.talk.app.put("/api/settings/strategy").json(&json!({"planning": "always"})).send().await.expect_status(200);
    let events = bench.talk.exchange(&json!({"content": "Look."})).await;
    assert_eq!(kinds(&events), ["start", "tool_use", "tool_result", "tool_use", "tool_result", "token", "done"]);
    assert_eq!((&events[1].data["tool"], &events[2].data["output"]["text"]), (&json!("plan"), &json!("1. look")));
    assert!(bench.request(0).get("tools").is_none(), "a plan is written, not done");
    assert!(bench.request(1)["messages"][0]["content"].as_str().expect("text").contains("Your plan:\n1. look"));
    assert_eq!(token_text(&events), "Seen.");
    assert_eq!(bench.talk.usage().await.len(), 3);
    assert_eq!(last(&events).data["input_tokens"], 21);
    // Left to itself, only what has several parts is planned.
    bench.talk.app.put("/api/settings/strategy").json(&json!({"planning": "auto"})).send().await.expect_status(200);
    let events = bench.talk.exchange(&json!({"content": "Look."})).await;
    assert_eq!(kinds(&events), ["start", "token", "done"]);
    let long = json!({"content": "Look at this. Then look at that. Then tell me which one is better."});
    let events = bench.talk.exchange(&long).await;
    assert_eq!(events[1].data["tool"], "plan");
}

#[tokio::test]
async fn an_answer_may_be_looked_over() {
    let replies = vec![calls(&[("look", json!({}))]), says("It is b."), says("It is a."), says("FINE")];
    let bench = Bench::with(replies).await;
    bench.talk.app.put("/api/settings/strategy").json(&json!({"reflection": true})).send().await.expect_status(200);
    let events = bench.talk.exchange(&json!({"content": "What?"})).await;
    assert_eq!(token_text(&events), "It is b.\n\nIt is a.");
    assert_eq!(bench.kept(&events).await["content"], "It is b.\n\nIt is a.");
    assert_eq!(bench.talk.usage().await.len(), 3);
    // Without tools there is nothing to hold it against.
    let events = bench.talk.exchange(&json!({"content": "What?"})).await;
    assert_eq!((token_text(&events).as_str(), bench.talk.usage().await.len()), ("FINE", 4));
}

#[tokio::test]
async fn a_long_conversation_becomes_a_summary_and_stays_whole() {
    let app = TestApp::start_with(|source| {
        let folder = source.data_dir.clone().expect("a folder");
        std::fs::create_dir_all(&folder).expect("the folder");
        let prices =
            "[[price]]\nprovider = \"openai\"\nmodel = \"tiny\"\ninput = 1\noutput = 1\ncontext_window = 2000\n";
        std::fs::write(folder.join("prices.toml"), prices).expect("a price table");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&folder, private).expect("a private folder");
    })
    .await;
    let talk = Talk::on(
        app,
        Script::by(|request| {
            let is_minutes =
                request.body["messages"][0]["content"].as_str().is_some_and(|text| text.contains("minutes"));
            if is_minutes { says("They spoke of the moon.") } else { says("Yes.") }
        }),
    )
    .await;
    let settings = json!({"default_provider": "openai", "default_model": "tiny"});
    talk.app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let events = talk.exchange(&json!({"content": format!("first {}", "moon ".repeat(300))})).await;
    let id = started(&events, "conversation_id");
    for _ in 0..5 {
        talk.exchange(&json!({"content": format!("more {}", "moon ".repeat(300)), "conversation_id": id})).await;
    }
    let requests = talk.vendor.requests();
    let newest = &requests.last().expect("a request").body;
    let text = newest.to_string();
    assert!(text.contains("They spoke of the moon.") && !text.contains("first moon"), "{text}");
    let minutes = requests.iter().filter(|request| request.body.to_string().contains("keep the minutes")).count();
    assert!((1..=5).contains(&minutes), "{minutes} summaries");
    assert_eq!(talk.conversation(&id).await["messages"].as_array().expect("messages").len(), 12);
    // Messages that were taken away leave no trace in a summary.
    let cut = json!({"conversation_id": id, "keep_last": 0});
    talk.app.post("/api/chat/messages/truncate").json(&cut).send().await.expect_status(200);
    talk.exchange(&json!({"content": "hello", "conversation_id": id})).await;
    let requests = talk.vendor.requests();
    assert!(!requests.last().expect("a request").body.to_string().contains("They spoke of the moon."));
}
