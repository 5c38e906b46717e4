//! How well the model inside calls tools, without a network.
//!
//! A list of small everyday tasks, `bench/data/local_tools.json`, goes through the daemon's own way
//! (`agentd::providers::LocalBackend`, the inference process, this program again) with all tools offered
//! for each: the daemon's own as it describes them (`bench/data/builtin_tools.json`, which a test of the
//! daemon holds to that), and some that others might bring. A call is valid when its input, held against the tool's schema once more, is accepted; it is
//! right when tool and input are what the task expects. A task that no tool fits is right when nothing
//! is called. The part `tune` was looked at while the rules were written; `held` and `fresh` were only
//! counted, and `fresh` has tools and words of its own, written after the rules.
//!
//!     cargo run --release -p agentd-bench --features local-model,embedded --bin local_tools -- MODEL.gguf [--verbose] [--part tune|held|fresh]

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reports to a terminal and stops at the first thing that is wrong"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentd::providers::LocalBackend;
use agentd_base::{Clock, Entropy};
use agentd_inference::{LocalModel, LocalModelOptions, worker};
use agentd_llm::{ModelBackend, ModelEvent, ModelMessage, ModelRequest, Schema, ToolCall, ToolDefinition};
use agentd_local_tools::{PastCall, ToolSpec, decide};
use agentd_process::Spawner;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Map, Value};

const WORKER: &str = "inference-worker";
const TASKS: &str = include_str!("../../data/local_tools.json");
/// As the daemon offers them.
const BUILTIN: &str = include_str!("../../data/builtin_tools.json");
const NONE: &str = "(no tool fits)";

#[derive(Deserialize)]
struct Suite {
    tools: Vec<Tool>,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    input_schema: Value,
    /// Offered to the tasks of this half alone.
    only: Option<String>,
}

#[derive(Deserialize)]
struct Task {
    half: String,
    say: String,
    tool: Option<String>,
    #[serde(default)]
    input: Map<String, Value>,
    /// Calls that were made for this message already.
    #[serde(default)]
    after: Vec<Past>,
}

#[derive(Deserialize)]
struct Past {
    tool: String,
    input: Value,
    result: String,
}

#[derive(Default, Clone, Copy)]
struct Row {
    tasks: u32,
    called: u32,
    valid: u32,
    right_tool: u32,
    right_arguments: u32,
    written_by_model: u32,
    seconds: f64,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.tasks += other.tasks;
        self.called += other.called;
        self.valid += other.valid;
        self.right_tool += other.right_tool;
        self.right_arguments += other.right_arguments;
        self.written_by_model += other.written_by_model;
        self.seconds += other.seconds;
    }

    fn print(&self, name: &str) {
        println!(
            "{name:15} {:7} {:7} {:7} {:11} {:16} {:17} {:10.1}",
            self.tasks,
            self.called,
            self.valid,
            self.right_tool,
            self.right_arguments,
            self.written_by_model,
            self.seconds * 1000.0 / f64::from(self.tasks.max(1))
        );
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == WORKER) {
        return worker::run(&Clock::system());
    }
    let Some(path) = arguments.first().map(PathBuf::from).filter(|path| path.is_file()) else {
        eprintln!("usage: local_tools MODEL.gguf [--verbose] [--part tune|held|fresh]");
        return ExitCode::FAILURE;
    };
    let verbose = arguments.iter().any(|argument| argument == "--verbose");
    let only = arguments.iter().position(|argument| argument == "--part").and_then(|at| arguments.get(at + 1)).cloned();
    let mut suite: Suite = serde_json::from_str(TASKS).expect("the list of tasks");
    let mut tools: Vec<Tool> = serde_json::from_str(BUILTIN).expect("the daemon's own tools");
    tools.append(&mut suite.tools);
    suite.tools = tools;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run(&path, &suite, verbose, only.as_deref()));
    ExitCode::SUCCESS
}

async fn run(path: &Path, suite: &Suite, verbose: bool, only: Option<&str>) {
    let spawner = Spawner::start().expect("a thread");
    let program = std::env::current_exe().expect("the path of this program");
    let model = LocalModel::new(LocalModelOptions::new(program, vec![WORKER.into()], spawner, Entropy::system()));
    let backend = LocalBackend::new(model.clone(), path.to_path_buf());
    let offered = |half: &str| -> Vec<&Tool> {
        suite.tools.iter().filter(|tool| tool.only.as_deref().is_none_or(|only| only == half)).collect()
    };
    // Loading the file is not what is measured.
    ask(&backend, &[], vec![user("Say hello")]).await;

    let (mut total, mut total_fitting) = (Row::default(), Row::default());
    for half in ["tune", "held", "fresh"] {
        if only.is_some_and(|only| only != half) {
            continue;
        }
        let tools = offered(half);
        let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
        for task in suite.tasks.iter().filter(|task| task.half == half) {
            let row = measure(&backend, &tools, task, verbose).await;
            rows.entry(task.tool.as_deref().unwrap_or(NONE)).or_default().add(&row);
        }
        println!("\npart `{half}`");
        head();
        let (mut sum, mut fitting) = (Row::default(), Row::default());
        for (name, row) in &rows {
            row.print(name);
            sum.add(row);
            if *name != NONE {
                fitting.add(row);
            }
        }
        sum.print("all");
        shares(&sum, &fitting);
        total.add(&sum);
        total_fitting.add(&fitting);
    }
    println!("\nall parts");
    head();
    total.print("all");
    shares(&total, &total_fitting);
    model.shutdown().await;
}

fn head() {
    println!("tool expected     tasks  called   valid  right tool  right arguments  written by model   ms a task");
}

fn shares(row: &Row, fitting: &Row) {
    let share = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    println!(
        "valid calls {:.1} %; right tool {:.1} %; right tool with right arguments {:.1} % (of the {} tasks that a tool fits {:.1} %)",
        share(row.valid, row.called),
        share(row.right_tool, row.tasks),
        share(row.right_arguments, row.tasks),
        fitting.tasks,
        share(fitting.right_arguments, fitting.tasks)
    );
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User { content: text.to_owned() }
}

/// The first call of the reply, if it makes one, and how many tokens the model wrote for it.
async fn ask(backend: &LocalBackend, tools: &[&Tool], messages: Vec<ModelMessage>) -> (Option<ToolCall>, u64) {
    let definition = |tool: &&Tool| ToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Schema::new(&tool.input_schema),
    };
    let request = ModelRequest {
        client: "bench".into(),
        model: String::new(),
        system: None,
        messages,
        tools: tools.iter().map(definition).collect(),
        temperature: Some(0.0),
        max_output_tokens: None,
        is_conversation: true,
        timeout: Duration::from_secs(600),
    };
    let mut events = backend.generate(request).await.expect("the model inside");
    let mut made = None;
    while let Some(event) = events.next().await {
        match event.expect("the model inside") {
            ModelEvent::ToolCall(call) => made = made.or(Some(call)),
            ModelEvent::Finished(finish) => return (made, finish.usage.output_tokens),
            // Rules come before the reply: once there is text, no call follows.
            ModelEvent::Text(_) | ModelEvent::Reasoning(_) => return (None, 0),
        }
    }
    (made, 0)
}

async fn measure(backend: &LocalBackend, tools: &[&Tool], task: &Task, verbose: bool) -> Row {
    let started = Instant::now();
    let (made, tokens) =
        if is_decided(tools, task) { ask(backend, tools, conversation(task)).await } else { (None, 0) };
    let mut row = Row { tasks: 1, seconds: started.elapsed().as_secs_f64(), ..Row::default() };
    let written = made.is_some() && tokens > 0;
    row.written_by_model = u32::from(written);
    let made = made.map(|call| (call.name, call.input));
    if let Some((tool, input)) = &made {
        row.called = 1;
        let schema = tools.iter().find(|offered| offered.name == *tool).map(|offered| &offered.input_schema);
        row.valid = u32::from(schema.is_some_and(|schema| jsonschema::is_valid(schema, input)));
    }
    let right_tool = made.as_ref().map(|(tool, _)| tool.as_str()) == task.tool.as_deref();
    let right = right_tool && made.as_ref().is_none_or(|(_, input)| is_right(&task.input, input));
    row.right_tool = u32::from(right_tool);
    row.right_arguments = u32::from(right);
    if verbose {
        let answer = made.map_or_else(|| "nothing".to_owned(), |(tool, input)| format!("{tool} {input}"));
        let author = if written { "  (model)" } else { "" };
        println!("{} {:?} -> {answer}{author}", if right { "ok   " } else { "WRONG" }, task.say);
    }
    row
}

/// Whether the rules would make a call. Where they would not, a reply in words is not waited for.
fn is_decided(tools: &[&Tool], task: &Task) -> bool {
    let spec = |tool: &&Tool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
    };
    let past = |past: &Past| PastCall {
        name: past.tool.clone(),
        input: past.input.clone(),
        result: past.result.clone(),
        failed: false,
    };
    let past: Vec<PastCall> = task.after.iter().map(past).collect();
    decide(&tools.iter().map(spec).collect::<Vec<_>>(), &task.say, &past).is_some()
}

fn conversation(task: &Task) -> Vec<ModelMessage> {
    let mut messages = vec![user(&task.say)];
    for (at, past) in task.after.iter().enumerate() {
        let call = ToolCall::new(format!("call_{at}"), past.tool.clone(), past.input.clone());
        messages.push(ModelMessage::Assistant { content: String::new(), tool_calls: vec![call.clone()] });
        messages.push(ModelMessage::Tool {
            call_id: call.id,
            name: call.name,
            content: past.result.clone(),
            is_error: false,
        });
    }
    messages
}

/// Exactly the expected arguments, each with a value that its expectation allows.
fn is_right(expected: &Map<String, Value>, input: &Value) -> bool {
    let Some(input) = input.as_object() else { return false };
    input.len() == expected.len()
        && expected.iter().all(|(name, wanted)| input.get(name).is_some_and(|value| matches(wanted, value)))
}

/// `{"like": […]}` leaves case, spaces and a last full stop aside; `{"any_of": […]}` and
/// `{"contains": […], "without": […]}` say it themselves; anything else must be equal.
fn matches(wanted: &Value, value: &Value) -> bool {
    let list = |key: &str| wanted.get(key).and_then(Value::as_array);
    let text = value.as_str().unwrap_or_default();
    let has_all = |parts: &[Value]| parts.iter().filter_map(Value::as_str).all(|part| text.contains(part));
    let has_unwanted =
        list("without").is_some_and(|parts| parts.iter().filter_map(Value::as_str).any(|part| text.contains(part)));
    if let Some(alternatives) = list("like") {
        alternatives.iter().filter_map(Value::as_str).any(|wanted| loose(wanted) == loose(text))
    } else if let Some(alternatives) = list("any_of") {
        alternatives.contains(value)
    } else if let Some(alternatives) = list("any_of_contains") {
        alternatives.iter().filter_map(Value::as_array).any(|parts| has_all(parts)) && !has_unwanted
    } else if let Some(parts) = list("contains") {
        has_all(parts) && !has_unwanted
    } else {
        wanted == value || wanted.as_f64().is_some_and(|wanted| value.as_f64() == Some(wanted))
    }
}

fn loose(text: &str) -> String {
    let kept: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    kept.trim_end_matches('.').to_lowercase()
}
