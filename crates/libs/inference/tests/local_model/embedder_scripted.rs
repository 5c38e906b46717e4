//! Whatever the embedding process does, each call ends and the next one succeeds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_inference::embedder::{
    DIMENSIONS, Embedder, EmbedderOptions, EmbedderStatus, LocalEmbedder, MAX_TEXT_BYTES, MAX_TEXTS_PER_CALL,
};
use agentd_inference::{LocalErrorCode, LocalState};
use rustix::process::{Pid, Signal, kill_process};

use crate::child;

fn options() -> EmbedderOptions {
    // An existing file: scripted processes do not read it.
    child::embedder_options("scripted_embedder", &std::env::current_exe().unwrap())
}

async fn until(embedder: &LocalEmbedder, holds: impl Fn(&EmbedderStatus) -> bool) -> EmbedderStatus {
    embedder.subscribe().wait_for(|status| holds(status)).await.unwrap().clone()
}

async fn assert_works(embedder: &LocalEmbedder) {
    assert_eq!(embedder.embed_query("four").await.unwrap(), [4.0; DIMENSIONS]);
}

fn kill(embedder: &LocalEmbedder) {
    let pid = i32::try_from(embedder.status().process_id.unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[tokio::test]
async fn process_is_started_on_the_first_call() {
    let embedder = LocalEmbedder::new(options());
    let status = embedder.status();
    assert_eq!((status.state, status.process_id, status.resident_bytes), (LocalState::Unloaded, None, 0));
    assert_eq!(embedder.embed_texts(Vec::new()).await.unwrap(), []);
    assert_eq!(embedder.status().process_id, None);
}

#[tokio::test]
async fn texts_are_answered_in_order_and_shown_in_the_status() {
    let embedder: Box<dyn Embedder> = Box::new(LocalEmbedder::new(options()));
    let embedded = embedder.embed_texts(texts(&["hold this", "a", "release", "bbb"])).await.unwrap();
    let lengths: Vec<usize> = embedded.iter().map(|text| text.chunks[0].range.end).collect();
    assert_eq!(lengths, [9, 1, 7, 3]);
    let status = embedder.status();
    assert_eq!((status.state, status.last_error), (LocalState::Ready, None));
    assert_eq!(status.tokens_per_second, Some(100.0));
    assert!(status.resident_bytes > 0);
    assert_eq!(embedder.dimensions(), DIMENSIONS);
}

#[tokio::test]
async fn large_call_does_not_block_others() {
    let embedder = LocalEmbedder::new(options());
    let many = {
        let embedder = embedder.clone();
        // Far more than the process may have at a time, all of which are held.
        tokio::spawn(async move { embedder.embed_texts(vec!["hold".to_owned(); 200]).await })
    };
    until(&embedder, |status| status.active_requests == 200).await;
    assert_works(&embedder).await;
    let release = tokio::spawn({
        let embedder = embedder.clone();
        async move {
            // Each call releases the texts in the process; further ones are then sent.
            while embedder.status().active_requests > 0 {
                embedder.embed_query("release").await.unwrap();
            }
        }
    });
    assert_eq!(many.await.unwrap().unwrap().len(), 200);
    release.await.unwrap();
}

#[tokio::test]
async fn crash_fails_all_calls_with_the_last_log_lines() {
    let embedder = LocalEmbedder::new(options());
    let held = {
        let embedder = embedder.clone();
        tokio::spawn(async move { embedder.embed_texts(vec!["hold".to_owned()]).await })
    };
    until(&embedder, |status| status.active_requests == 1).await;
    let error = embedder.embed_query("crash GGML_ASSERT failed").await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("signal 6") && error.message.contains("GGML_ASSERT failed"), "{error}");
    assert_eq!(held.await.unwrap().unwrap_err(), error);
    assert_eq!(embedder.status().state, LocalState::Failed);
    assert_works(&embedder).await;
    assert_eq!(embedder.status().last_error, None);
}

#[tokio::test]
async fn killed_process_is_an_error_and_the_next_call_succeeds() {
    let embedder = LocalEmbedder::new(options());
    let held = {
        let embedder = embedder.clone();
        tokio::spawn(async move { embedder.embed_query("hold").await })
    };
    until(&embedder, |status| status.active_requests == 1 && status.state == LocalState::Ready).await;
    kill(&embedder);
    let error = held.await.unwrap().unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("signal 9"), "{error}");
    assert_works(&embedder).await;
}

#[tokio::test]
async fn hung_process_is_killed() {
    let embedder = LocalEmbedder::new(EmbedderOptions { stall_timeout: Duration::from_millis(300), ..options() });
    let error = embedder.embed_texts(texts(&["a", "hang"])).await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("did not respond"), "{error}");
    let embedder = LocalEmbedder::new(options());
    assert!(embedder.embed_query("garbage").await.unwrap_err().message.contains("not valid JSON"));
    assert_works(&embedder).await;
}

#[tokio::test]
async fn consecutive_failures_cause_a_backoff_with_a_reason() {
    let embedder = LocalEmbedder::new(options());
    for _ in 0..2 {
        assert!(embedder.embed_query("crash no luck").await.unwrap_err().message.contains("no luck"));
    }
    for error in [embedder.embed_query("a").await.unwrap_err(), embedder.embed_texts(texts(&["a"])).await.unwrap_err()]
    {
        assert_eq!(error.code, LocalErrorCode::Unavailable);
        assert!(error.message.contains("2 times in a row") && error.message.contains("no luck"), "{error}");
    }
}

#[tokio::test]
async fn idle_process_is_ended_and_restarted_on_demand() {
    let embedder = LocalEmbedder::new(EmbedderOptions { idle_unload: Duration::from_millis(200), ..options() });
    assert_works(&embedder).await;
    let pid = embedder.status().process_id.unwrap();
    let status = until(&embedder, |status| status.state == LocalState::Unloaded).await;
    assert_eq!(status.process_id, None);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert_works(&embedder).await;
    let embedder = LocalEmbedder::new(EmbedderOptions { idle_unload: Duration::ZERO, ..options() });
    for _ in 0..3 {
        assert_works(&embedder).await;
    }
}

#[tokio::test]
async fn excess_calls_are_refused() {
    let embedder = LocalEmbedder::new(EmbedderOptions { max_queries: 1, max_texts: 3, ..options() });
    let spawn_texts = |count: usize| {
        let embedder = embedder.clone();
        tokio::spawn(async move { embedder.embed_texts(vec!["hold".to_owned(); count]).await })
    };
    let waiting = spawn_texts(2);
    until(&embedder, |status| status.active_requests == 2).await;
    assert_eq!(spawn_texts(2).await.unwrap().unwrap_err().code, LocalErrorCode::Overloaded);
    let query = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed_query("hold").await }
    });
    until(&embedder, |status| status.active_requests == 3).await;
    assert_eq!(embedder.embed_query("a").await.unwrap_err().code, LocalErrorCode::Overloaded);
    embedder.embed_texts(texts(&["release"])).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 2);
    assert!(query.await.unwrap().is_ok());
}

#[tokio::test]
async fn invalid_input_is_refused_immediately() {
    let embedder = LocalEmbedder::new(options());
    for texts in [vec!["x".repeat(MAX_TEXT_BYTES + 1)], vec![String::new(); MAX_TEXTS_PER_CALL + 1]] {
        assert_eq!(embedder.embed_texts(texts).await.unwrap_err().code, LocalErrorCode::Invalid);
    }
    assert_eq!(embedder.status().process_id, None);
    // The longest encoding of a text on the pipe.
    let embedded = embedder.embed_texts(vec!["\0".repeat(MAX_TEXT_BYTES)]).await.unwrap();
    assert_eq!(embedded[0].chunks[0].range, 0..MAX_TEXT_BYTES);
}

#[tokio::test]
async fn cancelled_call_frees_capacity() {
    let embedder = LocalEmbedder::new(EmbedderOptions { max_texts: 100, ..options() });
    let many = {
        let embedder = embedder.clone();
        tokio::spawn(async move { embedder.embed_texts(vec!["hold".to_owned(); 100]).await })
    };
    until(&embedder, |status| status.active_requests == 100).await;
    many.abort();
    assert!(many.await.unwrap_err().is_cancelled());
    embedder.embed_query("release").await.unwrap();
    until(&embedder, |status| status.active_requests == 0).await;
    assert_eq!(embedder.embed_texts(vec!["a".to_owned(); 100]).await.unwrap().len(), 100);
}

#[tokio::test]
async fn shutdown_ends_the_process_and_all_calls() {
    let embedder = LocalEmbedder::new(options());
    let held = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed_texts(vec!["hold".to_owned(); 50]).await }
    });
    let status = until(&embedder, |status| status.active_requests == 50 && status.process_id.is_some()).await;
    embedder.shutdown().await;
    assert!(!Path::new(&format!("/proc/{}", status.process_id.unwrap())).exists());
    assert_eq!(held.await.unwrap().unwrap_err().code, LocalErrorCode::Unavailable);
    assert_eq!(embedder.status().state, LocalState::Unloaded);
    assert!(embedder.embed_query("a").await.unwrap_err().message.contains("shutting down"));
    embedder.shutdown().await;
}

#[tokio::test]
async fn missing_file_is_reported_without_a_process_until_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let embedder = LocalEmbedder::new(EmbedderOptions { model_paths: vec![path.clone()], ..options() });
    for error in [
        embedder.embed_query("a").await.unwrap_err(),
        embedder.embed_texts(texts(&["a"])).await.unwrap_err(),
        embedder.model_id().await.unwrap_err(),
    ] {
        assert_eq!(error.code, LocalErrorCode::ModelMissing);
        assert!(error.message.contains("make models") && error.message.contains("model.gguf"), "{error}");
    }
    assert_eq!(embedder.status().process_id, None);
    assert!(embedder.status().last_error.is_some());
    std::fs::write(&path, "now").unwrap();
    assert_works(&embedder).await;
}

#[tokio::test]
async fn refused_file_is_not_read_again_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("model.gguf");
    std::fs::write(&path, "one").unwrap();
    let embedder = LocalEmbedder::new(EmbedderOptions { model_paths: vec![path.clone()], ..options() });
    let id = embedder.model_id().await.unwrap();
    let error = embedder.embed_query("refuse it is damaged").await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (LocalErrorCode::ModelMissing, "it is damaged"));
    // The process would answer this query.
    assert_eq!(embedder.embed_query("a").await.unwrap_err(), error);
    assert_eq!(embedder.status().state, LocalState::Failed);
    let pid = embedder.status().process_id;
    std::fs::write(&path, "another").unwrap();
    assert_works(&embedder).await;
    assert_ne!(embedder.status().process_id, pid);
    assert_eq!(embedder.status().state, LocalState::Ready);
    assert_ne!(embedder.model_id().await.unwrap(), id);
}

#[tokio::test]
async fn missing_program_is_an_error_with_its_cause() {
    let mut options = options();
    options.worker_command.0 = "/nonexistent/agentd".into();
    let error = LocalEmbedder::new(options).embed_query("a").await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("/nonexistent/agentd") && error.message.contains("No such file"), "{error}");
}
