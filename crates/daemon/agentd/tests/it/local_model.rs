//! Tools and replies of a scripted local model with different chat templates.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use agentd_testing_inference::scripted::{recorded_prompts, write_model};
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::create_agent;
use crate::support::request::token_text;

/// Script that starts [`scripted_process`] in place of the daemon's own program.
const START_SCRIPT: &str = "#!/bin/sh\n\
    exec 'TEST' local_model::scripted_process --exact --ignored --nocapture --test-threads=1 3>&1 1>&2\n";
const REPLIES_PIPE: &str = "/proc/self/fd/3";

/// Template with tools in the Hermes format, used by Qwen and others.
const TEMPLATE_WITH_TOOLS: &str = "{% for tool in tools %}<tool>{{ tool | tojson }}</tool>{% endfor %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
pub const TEMPLATE_WITHOUT_TOOLS: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
#[ignore = "the entry point of the scripted inference process"]
fn scripted_process() {
    // The test harness prints to standard output, so the pipe is passed as another descriptor.
    let Ok(pipe) = std::fs::File::options().write(true).open(REPLIES_PIPE) else { return };
    rustix::stdio::dup2_stdout(&pipe).expect("standard output");
    drop(pipe);
    let _ = agentd_testing_inference::scripted::run(&agentd_base::Clock::system());
}

/// Starts a daemon whose local model follows `replies`; returns the daemon and the file of the model.
pub async fn with_scripted_model(template: &str, replies: &[(&str, &str)]) -> (TestApp, PathBuf) {
    let mut app = TestApp::start_with(|source| {
        let folder = source.data_dir.clone().expect("a folder").with_file_name("programs");
        std::fs::create_dir(&folder).expect("a folder");
        let (program, test) = (folder.join("agentd"), std::env::current_exe().expect("this program"));
        let text = START_SCRIPT.replace("TEST", test.to_str().expect("a path in UTF-8"));
        std::fs::write(&program, text).expect("a file");
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).expect("permissions");
        source.program = Some(program);
    })
    .await;
    let models = app.data_dir().join("models");
    std::fs::create_dir_all(&models).expect("a folder");
    let file = models.join("scripted.gguf");
    write_model(&file, template, replies).expect("a model file");
    app.create_owner().await;
    create_agent(&app, "scout").await;
    (app, file)
}

async fn local_model(app: &TestApp) -> Value {
    let list = app.get("/api/providers").send().await.expect_status(200).json();
    let local = list["providers"].as_array().expect("a list").iter().find(|provider| provider["id"] == "local");
    local.expect("the local model")["local"].clone()
}

#[tokio::test]
async fn local_model_with_a_tool_template_calls_tools() {
    let call = "I look.<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"a.txt\", \"content\": \"amber\"}}\n</tool_call>";
    // The second prompt contains the output of the tool.
    let replies = [("created", "It is written."), ("remember amber", call)];
    let (app, file) = with_scripted_model(TEMPLATE_WITH_TOOLS, &replies).await;
    let local = local_model(&app).await;
    assert_eq!((&local["tools"], &local["tools_message"]), (&json!(true), &Value::Null));
    let conversation = json!({"execution_mode": "autonomous"});
    let id =
        app.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json()["id"].clone();
    let message = json!({"content": "remember amber", "conversation_id": id});
    let events = app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
    let result = events.iter().find(|event| event.event == "tool_result").unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!((&result.data["tool"], &result.data["status"]), (&json!("write_file"), &json!("done")), "{result:?}");
    assert_eq!(token_text(&events), "I look.\n\nIt is written.");

    let prompts = recorded_prompts(&file).expect("recorded prompts");
    let [first, began, second] = prompts.as_slice() else { panic!("{prompts:?}") };
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
async fn local_model_without_a_tool_template_is_offered_no_tools() {
    let (app, file) =
        with_scripted_model(TEMPLATE_WITHOUT_TOOLS, &[("a.txt", "I cannot write files."), ("sky", "Light scatters.")])
            .await;
    let local = local_model(&app).await;
    assert_eq!(local["tools"], false);
    let message = local["tools_message"].as_str().expect("a sentence");
    assert!(message.contains("scripted.gguf") && message.contains("Qwen"), "{message}");
    for (content, reply) in
        [("Why is the sky blue?", "Light scatters."), ("Write \"x\" to a.txt", "I cannot write files.")]
    {
        let message = json!({"content": content});
        let events = app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
        assert_eq!(token_text(&events), reply, "{events:?}");
        assert!(events.iter().all(|event| event.data["tool"].is_null()), "{events:?}");
    }
    let prompts = recorded_prompts(&file).expect("recorded prompts");
    assert!(prompts.iter().all(|line| !line.to_string().contains("write_file")), "{prompts:?}");
}

#[tokio::test]
async fn reasoning_of_the_local_model_is_not_shown() {
    let opens = TEMPLATE_WITHOUT_TOOLS.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}");
    for (template, reply) in [
        (TEMPLATE_WITHOUT_TOOLS, "<think>a plan</think>\n\nLight scatters."),
        (&opens, "a plan</think>\n\nLight scatters."),
    ] {
        let (app, _) = with_scripted_model(template, &[("sky", reply)]).await;
        let message = json!({"content": "Why is the sky blue?"});
        let events = app.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
        assert_eq!(token_text(&events), "Light scatters.", "{events:?}");
    }
}
