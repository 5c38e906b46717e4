//! Scripted inference process used through the daemon's side of the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;

use agentd_base::{Clock, Entropy};
use agentd_inference::{ChatMessage, GenerateRequest, LocalModel, LocalModelOptions, supports_tools};
use agentd_process::Spawner;
use agentd_testing_inference::scripted::{self, HELD_PREFIX, recorded_prompts, release, write_model};
use serde_json::json;

/// The test harness prints to standard output, so a shell moves the pipe to this descriptor first.
const REPLIES_PIPE: &str = "/proc/self/fd/3";
const TEMPLATE: &str = "{% for tool in tools %}<tool>{{ tool | tojson }}</tool>{% endfor %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
#[ignore = "the entry point of an inference process without an engine"]
fn scripted_process() {
    let Ok(pipe) = File::options().write(true).open(REPLIES_PIPE) else { return };
    rustix::stdio::dup2_stdout(&pipe).expect("standard output");
    drop(pipe);
    let _ = scripted::run(&Clock::system());
}

fn model() -> LocalModel {
    let arguments = vec![
        "-c".into(),
        "exec \"$0\" scripted_process --exact --ignored --nocapture --test-threads=1 3>&1 1>&2".into(),
        std::env::current_exe().unwrap().into(),
    ];
    let options = LocalModelOptions::new("/bin/sh", arguments, Spawner::start().unwrap(), Entropy::seeded(1));
    LocalModel::new(options)
}

#[tokio::test]
async fn process_replies_by_the_script_and_records_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scripted.gguf");
    let held = format!("{HELD_PREFIX}Later.");
    write_model(&path, TEMPLATE, &[("sky", "Light scatters."), ("welcome", &held)]).unwrap();
    assert!(supports_tools(&path));
    let model = model();
    let ask =
        |text: &str| model.generate(GenerateRequest::new(&path, "", vec![ChatMessage::user(text)])).collect_text();
    assert_eq!(ask("Why is the sky blue?").await.unwrap().0, "Light scatters.");
    assert_eq!(ask("Say nothing.").await.unwrap().0, "");
    let prompts = recorded_prompts(&path).unwrap();
    assert!(prompts.len() == 2 && prompts[0]["prompt"].to_string().contains("Why is the sky blue?"), "{prompts:?}");
    assert_eq!(prompts[1]["grammar"], json!(null));
    let waiting = ask("welcome");
    release(&path).unwrap();
    assert_eq!(waiting.await.unwrap().0, "Later.");
    model.shutdown().await;
}
