//! Tests of the sentence encoder with real weights: the file in `AGENTD_TEST_EMBEDDING_MODEL`, or the one that
//! `scripts/fetch-models.sh models` installs. Without a file, the tests print a notice and pass.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_inference::embedder::{DIMENSIONS, EmbeddedText, EmbedderLimits, EmbedderOptions, LocalEmbedder, NameKind};
use agentd_inference::{LocalErrorCode, LocalState};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::child;

fn model_file() -> Option<PathBuf> {
    let named = std::env::var_os("AGENTD_TEST_EMBEDDING_MODEL").map(PathBuf::from);
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/all-minilm-l6-v2-q8_0.gguf");
    let found =
        if cfg!(feature = "local-model") { named.or_else(|| fetched.exists().then_some(fetched)) } else { None };
    if found.is_none() {
        println!(
            "SKIPPED: no embedding model or no engine; run `scripts/fetch-models.sh models` or set \
             AGENTD_TEST_EMBEDDING_MODEL, and build with the feature `local-model`"
        );
    }
    found
}

fn options(file: &Path) -> EmbedderOptions {
    child::embedder_options("engine", file)
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!((one.len(), other.len()), (DIMENSIONS, DIMENSIONS));
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

fn is_of_length_1(vector: &[f32]) -> bool {
    (cosine(vector, vector) - 1.0).abs() < 1e-5
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn only(text: &EmbeddedText) -> &[f32] {
    assert_eq!((text.chunks.len(), text.left_out), (1, 0));
    &text.chunks[0].vector
}

#[tokio::test]
async fn names_are_tagged_in_english_and_german() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let texts = ["Anna works at Siemens in Berlin.", "Gestern hat Anna in Berlin gearbeitet, und es war schön."];
    let embedded = embedder.embed_texts(owned(&texts)).await.unwrap();
    let found: Vec<Vec<_>> = texts
        .iter()
        .zip(embedded)
        .map(|(text, embedded)| {
            let names = embedded.names.unwrap();
            names.into_iter().map(|name| (&text[name.range], name.kind)).collect()
        })
        .collect();
    let (anna, berlin) = (("Anna", NameKind::Person), ("Berlin", NameKind::Place));
    assert_eq!(found, [vec![anna, ("Siemens", NameKind::Organization), berlin], vec![anna, berlin]]);
}

/// Reference vectors from the publisher's full-precision weights and tokenizer, computed with a plain implementation of
/// the network.
#[tokio::test]
async fn vectors_match_the_publishers_model() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let reference: Vec<Value> = serde_json::from_str(include_str!("embedder_reference.json")).unwrap();
    assert!(reference.len() >= 12);
    for entry in &reference {
        let wanted: Vec<f32> = serde_json::from_value(entry["vector"].clone()).unwrap();
        let found = embedder.embed_query(entry["text"].as_str().unwrap()).await.unwrap();
        let cosine = cosine(&found, &wanted);
        println!("{cosine:.5} {}", entry["text"]);
        // Errors of eight-bit rounding do not average out over two or three tokens.
        let least = if entry["tokens"].as_u64().unwrap() < 8 { 0.998 } else { 0.999 };
        assert!(cosine >= least && is_of_length_1(&found), "{cosine} {}", entry["text"]);
    }
    assert!(embedder.model_id().await.unwrap().contains(':'));
}

#[tokio::test]
async fn similar_meanings_have_closer_vectors() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    for (query, near, far) in [
        ("How do I get my money back?", "Refunds are paid within a week.", "The cat sleeps on the warm stove."),
        ("Where does she work?", "Her job is at the hospital in Leeds.", "The train was late again."),
        ("feeling ill", "I had a fever and stayed in bed all day.", "We repainted the fence in green."),
    ] {
        let query = embedder.embed_query(query).await.unwrap();
        let texts = embedder.embed_texts(owned(&[near, far])).await.unwrap();
        let [near, far] = [0, 1].map(|at| cosine(&query, only(&texts[at])));
        println!("{near:.3} {far:.3}");
        assert!(near > far + 0.1, "{near} {far}");
    }
}

#[tokio::test]
async fn vector_is_independent_of_other_texts() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let texts: Vec<String> = (0..40)
        .map(|number| format!("Note {number}: {} at the {number}th gate.", "the guard waited ".repeat(number % 9 + 1)))
        .collect();
    let together = embedder.embed_texts(texts.clone()).await.unwrap();
    for (text, embedded) in texts.iter().zip(&together) {
        assert_eq!(embedded.chunks[0].range, 0..text.len());
        let alone = embedder.embed_query(text).await.unwrap();
        let cosine = cosine(&alone, only(embedded));
        assert!(cosine >= 0.999, "{cosine} {text}");
    }
    let status = embedder.status();
    println!("{status:?}");
    assert_eq!((status.state, status.active_requests), (LocalState::Ready, 0));
    assert!(status.resident_bytes > 20 << 20 && status.tokens_per_second.unwrap() > 0.0);
}

#[tokio::test]
async fn long_text_is_split_and_each_subject_is_found() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let subjects = ["The bakery sells rye bread on Mondays. ", "Saturn has rings of ice and rock. "];
    let text = subjects.map(|sentence| sentence.repeat(60)).concat();
    let embedded = embedder.embed_texts(vec![text.clone()]).await.unwrap().remove(0);
    assert!(embedded.chunks.len() >= 4 && embedded.left_out == 0, "{}", embedded.chunks.len());
    for chunk in &embedded.chunks {
        let stretch = &text[chunk.range.clone()];
        assert!(stretch.ends_with('.') && is_of_length_1(&chunk.vector), "{stretch}");
        assert!(stretch.split_whitespace().count() <= 254);
    }
    let query = embedder.embed_query("planets").await.unwrap();
    let near = embedded.chunks.iter().map(|chunk| cosine(&query, &chunk.vector)).enumerate();
    let best = near.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap().0;
    assert!(text[embedded.chunks[best].range.clone()].contains("Saturn"));

    let limits = EmbedderLimits { max_chunks: 2, ..EmbedderLimits::default() };
    let few = LocalEmbedder::new(EmbedderOptions { limits, ..options(&file) });
    let cut = few.embed_texts(vec![text]).await.unwrap().remove(0);
    assert_eq!((cut.chunks.len(), cut.left_out), (2, embedded.chunks.len() - 2));
}

#[tokio::test]
async fn any_text_is_embedded() {
    let Some(file) = model_file() else { return };
    let limits = EmbedderLimits { max_chunks: 6, ..EmbedderLimits::default() };
    let embedder = LocalEmbedder::new(EmbedderOptions { limits, ..options(&file) });
    let texts = [
        "東京は日本の首都です。".repeat(100),
        "한국어 문장".repeat(200),
        "🍕👩‍👩‍👧‍👦🏳️‍🌈".repeat(300),
        "مرحبا بالعالم ".repeat(50),
        "\u{0301}\u{0301}e\u{0301}\u{200B}\u{FEFF}\u{FFFD}".repeat(50),
        "a\0b\0c".to_owned(),
        "[CLS] [SEP] [PAD] [MASK] [UNK]".to_owned(),
        "x".repeat(100_000),
        "word ".repeat(20_000),
        "\\\"'`<>&;--/*{}".repeat(500),
        "ﷺ".repeat(300),
    ];
    let embedded = embedder.embed_texts(texts.to_vec()).await.unwrap();
    for (text, embedded) in texts.iter().zip(&embedded) {
        let head: String = text.chars().take(12).collect();
        println!("{head:?}: {} chunks, {} left out", embedded.chunks.len(), embedded.left_out);
        assert!(!embedded.chunks.is_empty(), "{head:?}");
        assert!(embedded.chunks.iter().all(|chunk| is_of_length_1(&chunk.vector)), "{head:?}");
        assert!(is_of_length_1(&embedder.embed_query(text).await.unwrap()), "{head:?}");
    }
    assert_eq!((embedded[8].chunks.len(), embedded[8].left_out > 50), (6, true));
    let nothing = owned(&["", " \n\t", "\0\0\0", "\u{7}"]);
    for text in &nothing {
        assert_eq!(embedder.embed_query(text).await.unwrap_err().code, LocalErrorCode::Invalid);
    }
    assert_eq!(embedder.embed_texts(nothing).await.unwrap(), vec![EmbeddedText::default(); 4]);
}

#[tokio::test]
async fn query_is_answered_while_many_texts_are_queued() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let many = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed_texts(vec!["It rained all day in the valley. ".repeat(30); 40]).await }
    });
    embedder.subscribe().wait_for(|status| status.active_requests == 40).await.unwrap();
    for _ in 0..3 {
        embedder.embed_query("Was it dry?").await.unwrap();
    }
    assert!(!many.is_finished() && embedder.status().active_requests > 0, "{:?}", embedder.status());
    assert_eq!(many.await.unwrap().unwrap().len(), 40);
}

#[tokio::test]
async fn killed_process_is_an_error_and_the_next_call_succeeds() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(options(&file));
    let many = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed_texts(vec!["It rained all day in the valley. ".repeat(30); 500]).await }
    });
    let ready = |status: &agentd_inference::embedder::EmbedderStatus| status.tokens_per_second.is_some();
    let pid = embedder.subscribe().wait_for(ready).await.unwrap().process_id.unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let error = many.await.unwrap().unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("signal 9"), "{error}");
    assert!(embedder.embed_query("Was it dry?").await.is_ok());
}

#[tokio::test]
async fn unloading_ends_the_embedder_process() {
    let Some(file) = model_file() else { return };
    let embedder = LocalEmbedder::new(EmbedderOptions { idle_unload: Duration::from_millis(100), ..options(&file) });
    let mut status = embedder.subscribe();
    let before = embedder.embed_query("Was it dry?").await.unwrap();
    status.wait_for(|status| status.state == LocalState::Unloaded && status.process_id.is_none()).await.unwrap();
    assert_eq!(embedder.status().resident_bytes, 0);
    assert_eq!(embedder.embed_query("Was it dry?").await.unwrap(), before);
}

#[tokio::test]
async fn invalid_model_is_an_error_until_it_is_replaced() {
    let Some(file) = model_file() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let embedder = LocalEmbedder::new(options(&path));
    let whole = std::fs::read(&file).unwrap();
    let mut scrambled = whole.clone();
    for byte in scrambled.iter_mut().take(400_000).skip(64).step_by(97) {
        *byte ^= 0x5A;
    }
    let other_architecture = {
        let mut bytes = whole.clone();
        let at = bytes.windows(4).position(|window| window == b"bert").unwrap();
        bytes[at..at + 4].copy_from_slice(b"gpt2");
        bytes
    };
    let files: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("text", b"This is not a model."),
        ("header", &whole[..24]),
        ("cut", &whole[..whole.len() / 2]),
        ("scrambled", &scrambled),
        ("another kind", &other_architecture),
    ];
    for (name, bytes) in files {
        std::fs::write(&path, bytes).unwrap();
        let error = embedder.embed_query("Was it dry?").await.unwrap_err();
        println!("{name}: {error}");
        assert_eq!(error.code, LocalErrorCode::ModelMissing, "{name}: {error}");
        assert_eq!(embedder.embed_texts(owned(&["It rained."])).await.unwrap_err(), error);
        assert_eq!(embedder.status().state, LocalState::Failed);
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(embedder.embed_query("Was it dry?").await.is_ok());
    assert_eq!(embedder.status().last_error, None);
}
