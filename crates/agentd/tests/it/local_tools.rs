//! Tool calls of the model inside: by rules with real weights, and with a process that dies over them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd::providers::LocalBackend;
use agentd_base::Entropy;
use agentd_inference::{LocalModel, LocalModelOptions};
use agentd_llm::{Finish, ModelBackend, ModelErrorCode, ModelEvent, ModelMessage, ModelRequest, Schema, ToolCall};
use agentd_llm::{ToolDefinition, UsageSource};
use agentd_process::Spawner;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::process::BINARY;

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
