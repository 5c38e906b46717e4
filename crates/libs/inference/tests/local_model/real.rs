//! Tests of the engine with real weights: the file in `AGENTD_TEST_MODEL`, or the one that `scripts/fetch-models.sh
//! models` installs. Without a file, the tests print a notice and pass. Expected texts are those of the default model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_inference::{
    ChatMessage, FinishReason, GenerateRequest, LocalErrorCode, LocalEvent, LocalModel, LocalModelOptions, LocalState,
};
use futures_util::StreamExt;

use crate::child;

pub(crate) fn model_file() -> Option<PathBuf> {
    let named = std::env::var_os("AGENTD_TEST_MODEL").map(PathBuf::from);
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/smollm2-135m-instruct-q4_1.gguf");
    let found =
        if cfg!(feature = "local-model") { named.or_else(|| fetched.exists().then_some(fetched)) } else { None };
    if found.is_none() {
        println!(
            "SKIPPED: no model file or no engine; run `scripts/fetch-models.sh models` or set AGENTD_TEST_MODEL, and \
             build with the feature `local-model`"
        );
    }
    found
}

fn options() -> LocalModelOptions {
    child::options("engine")
}

fn ask(file: &Path, question: &str) -> GenerateRequest {
    let mut request =
        GenerateRequest::new(file, "You are a helpful assistant. Answer briefly.", vec![ChatMessage::user(question)]);
    request.temperature = 0.0;
    request.max_output_tokens = Some(64);
    request
}

const CAPITAL: &str = "What is the capital of France?";

#[tokio::test]
async fn reply_is_streamed_to_its_end_with_usage() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let mut stream = model.generate(ask(&file, CAPITAL));
    let (mut text, mut pieces) = (String::new(), 0u32);
    let end = loop {
        match stream.next().await.unwrap().unwrap() {
            LocalEvent::Text(piece) => {
                text.push_str(&piece);
                pieces += 1;
            }
            end => break end,
        }
    };
    println!("{text:?} {end:?}");
    assert!(text.contains("Paris") && !text.contains("<|"), "{text}");
    let LocalEvent::Finished { reason, input_tokens, output_tokens, .. } = end else { panic!("{end:?}") };
    assert_eq!(reason, FinishReason::Stop);
    assert!(pieces > 1 && pieces <= output_tokens, "{pieces} pieces, {output_tokens} tokens");
    assert!((20..60).contains(&input_tokens), "{input_tokens}");
    let status = model.status();
    println!("{status:?}");
    assert_eq!((status.state, status.context_length), (LocalState::Ready, Some(4096)));
    assert!(status.resident_bytes > 100 << 20, "{status:?}");
    assert!(status.prompt_tokens_per_second.unwrap() > 0.0);
}

#[tokio::test]
async fn reply_is_determined_by_the_seed() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let mut texts = Vec::new();
    for seed in [7, 7, 8] {
        let mut request = ask(&file, "Tell me a story about a fox.");
        request.temperature = 1.0;
        request.seed = Some(seed);
        request.max_output_tokens = Some(24);
        texts.push(model.generate(request).collect_text().await.unwrap().0);
    }
    assert_eq!(texts[0], texts[1]);
    assert_ne!(texts[1], texts[2]);
}

#[tokio::test]
async fn concurrent_requests_both_progress() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let request = |question: &str| {
        let mut request = ask(&file, question);
        request.max_output_tokens = Some(40);
        request
    };
    let first = model.generate(request("Tell me a long story about a fox."));
    let second = model.generate(request("Tell me a long story about a dog."));
    let mut both = futures_util::stream::select(first.map(|event| (1, event)), second.map(|event| (2, event)));
    let mut order = Vec::new();
    while let Some((which, event)) = both.next().await {
        if let LocalEvent::Text(_) = event.unwrap() {
            order.push(which);
        }
    }
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 10, "{order:?}");
}

#[tokio::test]
async fn dropped_stream_releases_its_permit() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(LocalModelOptions { max_parallel: 1, ..options() });
    let mut endless = ask(&file, "Count from one to a million, one number a line.");
    endless.max_output_tokens = None;
    let mut stream = model.generate(endless);
    assert!(matches!(stream.next().await, Some(Ok(LocalEvent::Text(_)))));
    drop(stream);
    // With a single permit and an endless first reply, this is only answered once the first is cancelled.
    let (text, _) = model.generate(ask(&file, CAPITAL)).collect_text().await.unwrap();
    assert!(text.contains("Paris"), "{text}");
}

#[tokio::test]
async fn stop_text_ends_the_reply() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let mut request = ask(&file, CAPITAL);
    request.stop = vec![" France".to_owned()];
    let (text, end) = model.generate(request).collect_text().await.unwrap();
    assert!(!text.contains("France") && !text.is_empty(), "{text}");
    assert!(matches!(end, LocalEvent::Finished { reason: FinishReason::Stop, .. }));
}

#[tokio::test]
async fn oversized_prompt_is_refused_and_long_prompt_is_read() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(LocalModelOptions { context_length: 700, ..options() });
    let error = model.generate(ask(&file, &"word ".repeat(1000))).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::ContextLength);
    assert!(error.message.contains("context window of 700 tokens"), "{error}");
    let mut long = ask(&file, &"word ".repeat(600));
    long.max_output_tokens = None;
    let (_, end) = model.generate(long).collect_text().await.unwrap();
    let LocalEvent::Finished { input_tokens, output_tokens, .. } = end else { panic!("{end:?}") };
    assert!(input_tokens > 600 && input_tokens + output_tokens <= 700, "{end:?}");
}

#[tokio::test]
async fn next_turn_uses_the_conversation() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let mut request = ask(&file, CAPITAL);
    let (first, end) = model.generate(request.clone()).collect_text().await.unwrap();
    let LocalEvent::Finished { input_tokens: before, .. } = end else { panic!("{end:?}") };
    request.messages.push(ChatMessage::assistant(first));
    request.messages.push(ChatMessage::user("Which country is that city in?"));
    let (second, end) = model.generate(request).collect_text().await.unwrap();
    let LocalEvent::Finished { input_tokens: after, .. } = end else { panic!("{end:?}") };
    assert!(second.contains("France"), "{second}");
    // The count is that of the whole prompt, including cached tokens.
    assert!(after > before + 10, "{before} {after}");
}

#[tokio::test]
async fn unloading_ends_the_model_process() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(LocalModelOptions { idle_unload: Duration::from_millis(100), ..options() });
    let stream = model.generate(ask(&file, CAPITAL));
    let pid = model.subscribe().wait_for(|status| status.process_id.is_some()).await.unwrap().process_id.unwrap();
    stream.collect_text().await.unwrap();
    model.subscribe().wait_for(|status| status.state == LocalState::Unloaded).await.unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(model.status().resident_bytes, 0);
    assert!(model.generate(ask(&file, CAPITAL)).collect_text().await.unwrap().0.contains("Paris"));
}

#[tokio::test]
async fn killed_process_is_an_error_and_the_next_request_succeeds() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let mut stream = model.generate(ask(&file, "Tell me a long story about a fox."));
    assert!(matches!(stream.next().await, Some(Ok(LocalEvent::Text(_)))));
    let pid = i32::try_from(model.status().process_id.unwrap()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    let error = stream.collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(model.generate(ask(&file, CAPITAL)).collect_text().await.unwrap().0.contains("Paris"));
}

#[tokio::test]
async fn invalid_model_is_an_error_and_the_next_request_succeeds() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(options());
    let directory = tempfile::tempdir().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let mut scrambled = whole[..1 << 20].to_vec();
    for byte in scrambled.iter_mut().skip(64).step_by(97) {
        *byte ^= 0x5A;
    }
    let files: [(&str, &[u8]); 5] = [
        ("empty.gguf", b""),
        ("text.gguf", b"This is not a model."),
        ("header.gguf", &whole[..24]),
        ("cut.gguf", &whole[..whole.len() / 2]),
        ("scrambled.gguf", &scrambled),
    ];
    for (name, bytes) in files {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = model.generate(ask(&path, CAPITAL)).collect_text().await.unwrap_err();
        println!("{name}: {error}");
        // A crash of the engine would be `unavailable`; none of these files is known to cause one.
        assert_eq!(error.code, LocalErrorCode::ModelMissing, "{name}: {error}");
        assert_eq!(model.status().state, LocalState::Failed);
        assert!(model.generate(ask(&file, CAPITAL)).collect_text().await.unwrap().0.contains("Paris"));
        assert_eq!(model.status().last_error, None);
    }
}
