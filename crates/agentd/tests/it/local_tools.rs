//! Tool calls of the model inside: by rules with real weights, and with a process that dies over them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd::providers::LocalBackend;
use agentd_base::Entropy;
use agentd_inference::worker::scripted::{asked, write_model};
use agentd_inference::{LocalModel, LocalModelOptions};
use agentd_llm::{Finish, ModelBackend, ModelErrorCode, ModelEvent, ModelMessage, ModelRequest, Schema, ToolCall};
use agentd_llm::{ToolDefinition, UsageSource};
use agentd_process::Spawner;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::process::BINARY;
use crate::support::request::token_text;
use crate::support::talk::create_agent;

/// The default model: `AGENTD_TEST_MODEL` is for the engine, and may name one that the rules are not for.
#[allow(clippy::print_stderr, reason = "who runs the tests is told what was left out")]
fn model_file() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/smollm2-135m-instruct-q4_1.gguf");
    let found = Some(fetched).filter(|file| agentd_inference::BUILT_IN && file.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no model file or no engine; run `make models`, and build with the feature `local-model`");
    }
    found
}

fn model(program: &str) -> LocalModel {
    let spawner = Spawner::start().expect("a thread");
    LocalModel::new(LocalModelOptions::new(program, vec!["inference-worker".into()], spawner, Entropy::seeded(1)))
}

fn tools() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "write_file",
            "Write a text file.",
            json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string", "maxLength": 4000}},
                   "required": ["path", "content"], "additionalProperties": false}),
        ),
        (
            "plan_party",
            "Plan a party.",
            json!({"type": "object", "properties": {
                       "mood": {"enum": ["quiet", "wild"]},
                       "guests": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
                       "place": {"type": "object", "properties": {"street": {"type": "string", "maxLength": 30}, "number": {"type": "integer", "minimum": 1, "maximum": 99}},
                                 "required": ["street", "number"], "additionalProperties": false}},
                   "required": ["mood", "guests", "place"], "additionalProperties": false}),
        ),
    ]
}

fn request(message: &str) -> ModelRequest {
    let definition = |(name, description, schema): (&str, &str, Value)| ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: Schema::new(&schema),
    };
    ModelRequest {
        client: "test".into(),
        model: "m".to_owned(),
        system: None,
        messages: vec![ModelMessage::User { content: message.to_owned() }],
        tools: tools().into_iter().map(definition).collect(),
        temperature: None,
        max_output_tokens: None,
        is_conversation: true,
        timeout: Duration::from_secs(120),
    }
}

/// The one call that `message` leads to, and what it took.
async fn called(backend: &LocalBackend, message: &str) -> (ToolCall, Finish) {
    let events: Vec<_> = backend.generate(request(message)).await.expect("a stream").collect().await;
    match events.as_slice() {
        [Ok(ModelEvent::ToolCall(call)), Ok(ModelEvent::Finished(finish))] => (call.clone(), *finish),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_made_up_is_valid_whatever_its_shape() {
    let Some(file) = model_file() else { return };
    let backend = LocalBackend::new(model(BINARY), file);
    for (message, name) in
        [("Write a short poem about rain to rain.txt", "write_file"), ("Plan a party for my sister", "plan_party")]
    {
        let (call, finish) = called(&backend, message).await;
        println!("{call:?}");
        assert_eq!((call.name.as_str(), finish.usage.source), (name, UsageSource::Provider));
        assert!(finish.usage.output_tokens > 0 && finish.usage.input_tokens > 0);
        let schema = tools().into_iter().find(|(offered, ..)| *offered == name).expect("a tool").2;
        assert!(jsonschema::is_valid(&schema, &call.input));
    }
}

#[tokio::test]
async fn what_stands_in_the_message_needs_no_process() {
    let model = model("/bin/false");
    let backend = LocalBackend::new(model.clone(), "/nonexistent.gguf".into());
    let (call, finish) = called(&backend, "Write \"x\" to a.txt").await;
    assert_eq!(call.input, json!({"path": "a.txt", "content": "x"}));
    assert_eq!((finish.usage.output_tokens, model.status().process_id), (0, None));
}

#[tokio::test]
async fn a_process_that_dies_over_a_call_is_an_error() {
    let backend = LocalBackend::new(model("/bin/false"), "/dev/null".into());
    let error = backend.generate(request("Write a short poem about rain to rain.txt")).await.err().expect("an error");
    assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{error}");
}

/// What [`scripted_process`] is started by, in place of the program itself.
const STARTS_SCRIPTED: &str = "#!/bin/sh\n\
    exec 'TEST' local_tools::scripted_process --exact --ignored --nocapture --test-threads=1 3>&1 1>&2\n";
const REPLIES_PIPE: &str = "/proc/self/fd/3";

/// In the form of Hermes, as that of Qwen and others.
const KNOWS_TOOLS: &str = "{% for tool in tools %}<tool>{{ tool | tojson }}</tool>{% endfor %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
pub const KNOWS_NONE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
#[ignore = "the entry point of an inference process without an engine"]
fn scripted_process() {
    // The test harness prints to standard output, so the pipe came as another descriptor.
    let Ok(pipe) = std::fs::File::options().write(true).open(REPLIES_PIPE) else { return };
    rustix::stdio::dup2_stdout(&pipe).expect("standard output");
    drop(pipe);
    let _ = agentd_inference::worker::scripted::run(&agentd_base::Clock::system());
}

/// A daemon, and the file of its model, which follows `replies`.
pub async fn with_scripted_model(template: &str, replies: &[(&str, &str)]) -> (TestApp, PathBuf) {
    let mut app = TestApp::start_with(|source| {
        let folder = source.data_dir.clone().expect("a folder").with_file_name("programs");
        std::fs::create_dir(&folder).expect("a folder");
        let (program, test) = (folder.join("agentd"), std::env::current_exe().expect("this program"));
        let text = STARTS_SCRIPTED.replace("TEST", test.to_str().expect("a path in UTF-8"));
        std::fs::write(&program, text).expect("a file");
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).expect("permissions");
        source.program = Some(program);
    })
    .await;
    let models = app.data_dir().join("models");
    std::fs::create_dir_all(&models).expect("a folder");
    let file = models.join("scripted.gguf");
    write_model(&file, template, replies).expect("a model file");
    app.make_owner().await;
    create_agent(&app, "scout").await;
    (app, file)
}

async fn calls_tools(app: &TestApp) -> Value {
    let list = app.get("/api/providers").send().await.expect_status(200).json();
    let local = list["providers"].as_array().expect("a list").iter().find(|provider| provider["id"] == "local");
    local.expect("the model inside")["local"]["calls_tools"].clone()
}

#[tokio::test]
async fn a_model_whose_template_knows_tools_calls_them_itself() {
    let call = "I look.<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"a.txt\", \"content\": \"amber\"}}\n</tool_call>";
    // The second prompt holds what the tool answered.
    let replies = [("created", "It is written."), ("remember amber", call)];
    let (app, file) = with_scripted_model(KNOWS_TOOLS, &replies).await;
    assert_eq!(calls_tools(&app).await, "template");
    let conversation = json!({"execution_mode": "autonomous"});
    let id =
        app.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json()["id"].clone();
    let message = json!({"content": "remember amber", "conversation_id": id});
    let events = app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
    let result = events.iter().find(|event| event.event == "tool_result").unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!((&result.data["tool"], &result.data["status"]), (&json!("write_file"), &json!("done")), "{result:?}");
    assert_eq!(token_text(&events), "I look.\n\nIt is written.");

    let asked = asked(&file).expect("what the model was asked");
    let [first, began, second] = asked.as_slice() else { panic!("{asked:?}") };
    let first = first["prompt"].as_str().expect("a prompt");
    assert!(first.contains("<tool>{\"type\": \"function\"") && first.contains("\"name\": \"write_file\""), "{first}");
    assert!(began["grammar"].as_str().expect("a grammar").contains("\"const\":\"write_file\""), "{began}");
    let second = second["prompt"].as_str().expect("a prompt");
    assert!(
        second.contains("<|im_start|>tool\n") && second.contains("<tool_call>\n{\"name\": \"write_file\""),
        "{second}"
    );
}

#[tokio::test]
async fn a_model_whose_template_knows_none_is_helped_by_rules() {
    let (app, file) = with_scripted_model(KNOWS_NONE, &[("sky", "Light scatters.")]).await;
    assert_eq!(calls_tools(&app).await, "rules");
    let send = async |content: &str| {
        let message = json!({"content": content});
        app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await
    };
    let events = send("Why is the sky blue?").await;
    assert_eq!(token_text(&events), "Light scatters.", "{events:?}");
    let prompts = asked(&file).expect("what the model was asked");
    assert!(prompts.iter().all(|line| !line.to_string().contains("write_file")), "{prompts:?}");

    let events = send("Write \"x\" to a.txt").await;
    let called = events.iter().find(|event| event.data["tool"] == "write_file");
    assert!(called.is_some(), "{events:?}");
    assert_eq!(asked(&file).expect("what the model was asked"), prompts, "the rules need no model for that");
}

#[tokio::test]
async fn reasoning_of_the_local_model_is_not_shown() {
    let opens = KNOWS_NONE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}");
    for (template, reply) in
        [(KNOWS_NONE, "<think>a plan</think>\n\nLight scatters."), (&opens, "a plan</think>\n\nLight scatters.")]
    {
        let (app, _) = with_scripted_model(template, &[("sky", reply)]).await;
        let message = json!({"content": "Why is the sky blue?"});
        let events = app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
        assert_eq!(token_text(&events), "Light scatters.", "{events:?}");
    }
}
