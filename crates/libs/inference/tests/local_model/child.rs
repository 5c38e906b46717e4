//! Entry points for this test binary as a child process, and the commands that start them.
//!
//! The test harness prints to standard output, which belongs to the protocol. Therefore a shell first moves the pipe to
//! descriptor 3, and the entry point moves it back.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use agentd_base::{Clock, Entropy};
use agentd_inference::embedder::{DIMENSIONS, EmbeddedChunk, EmbeddedText, EmbedderOptions};
use agentd_inference::protocol::{EmbeddingUsage, FromWorker, ToWorker, WorkerUsage, read_frame, write_frame};
use agentd_inference::{FinishReason, LocalErrorCode, LocalModelOptions, worker};
use agentd_process::{SpawnRequest, Spawner};

const PROTOCOL: &str = "/proc/self/fd/3";

/// Returns the command that runs `entry`, one of the tests below, as the inference process.
fn command(entry: &str) -> (PathBuf, Vec<OsString>) {
    let binary = std::env::current_exe().unwrap();
    let arguments = vec![
        "-c".into(),
        "exec \"$0\" \"$1\" --exact --ignored --nocapture --test-threads=1 3>&1 1>&2".into(),
        binary.into(),
        format!("child::{entry}").into(),
    ];
    (PathBuf::from("/bin/sh"), arguments)
}

/// Returns options of a local model with the process `entry`.
pub(crate) fn options(entry: &str) -> LocalModelOptions {
    let (program, arguments) = command(entry);
    LocalModelOptions::new(program, arguments, Spawner::start().unwrap(), Entropy::seeded(1))
}

/// Returns options of an embedder with the process `entry`.
pub(crate) fn embedder_options(entry: &str, model_path: &Path) -> EmbedderOptions {
    let (program, arguments) = command(entry);
    EmbedderOptions::new(
        vec![model_path.to_path_buf()],
        program,
        arguments,
        Spawner::start().unwrap(),
        Entropy::seeded(1),
    )
}

/// Returns the original standard output; `None` if this is not run as a child.
fn protocol_pipe() -> Option<File> {
    let started_by_us = ["--exact", "--ignored"].iter().all(|flag| std::env::args().any(|argument| argument == *flag));
    if !started_by_us {
        return None;
    }
    File::options().write(true).open(PROTOCOL).ok()
}

#[test]
#[ignore = "the entry point of a child process"]
fn engine() {
    let Some(pipe) = protocol_pipe() else { return };
    rustix::stdio::dup2_stdout(&pipe).unwrap();
    drop(pipe);
    let _ = worker::run(&Clock::system());
}

/// Minimal daemon: starts a child, prints its process id, and runs until it is killed.
#[test]
#[ignore = "the entry point of a child process"]
fn parent() {
    let Some(mut pipe) = protocol_pipe() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut request = SpawnRequest::new("/bin/sleep");
        request.arguments.push("1000".into());
        let child = Spawner::start().unwrap().spawn(request).await.unwrap();
        writeln!(pipe, "{}", child.pid()).unwrap();
        child.wait().await;
    });
}

/// Executes the last message as a script of steps separated by `;`.
#[test]
#[ignore = "the entry point of a child process"]
fn scripted() {
    let Some(mut pipe) = protocol_pipe() else { return };
    let mut input = File::open("/proc/self/fd/0").unwrap();
    assert!(matches!(read_frame::<ToWorker>(&mut input), Ok(Some(ToWorker::Configure(_)))));
    while let Ok(Some(frame)) = read_frame::<ToWorker>(&mut input) {
        if let ToWorker::Generate { id, request } = frame {
            write_frame(&mut pipe, &FromWorker::Loading { model_path: request.model_path.clone() }).unwrap();
            let loaded = FromWorker::Loaded { model_path: request.model_path.clone(), context_length: 1234 };
            write_frame(&mut pipe, &loaded).unwrap();
            let script = request.messages.last().unwrap().content.clone();
            if let Some(reason) = follow(&script, id, &mut input, &mut pipe) {
                let usage = WorkerUsage {
                    input_tokens: 20,
                    cached_tokens: 10,
                    output_tokens: 30,
                    prompt_seconds: 0.1,
                    generation_seconds: 0.5,
                };
                write_frame(&mut pipe, &FromWorker::Finished { id, reason, usage, calls: Vec::new() }).unwrap();
            }
        }
    }
}

/// Embedder that executes each text. Texts that are held are answered in order of arrival once a text says `release`.
#[test]
#[ignore = "the entry point of a child process"]
fn scripted_embedder() {
    let Some(mut pipe) = protocol_pipe() else { return };
    let mut input = File::open("/proc/self/fd/0").unwrap();
    let Ok(Some(ToWorker::ConfigureEmbedder(configuration))) = read_frame::<ToWorker>(&mut input) else {
        panic!("no configuration")
    };
    let model_path = configuration.model_path;
    let answer = |pipe: &mut File, id: u64, text: &str| {
        let value = f32::from(u16::try_from(text.len()).unwrap_or(u16::MAX));
        let chunk = EmbeddedChunk { range: 0..text.len(), vector: vec![value; DIMENSIONS] };
        let embedded = EmbeddedText { chunks: vec![chunk], ..EmbeddedText::default() };
        let usage = EmbeddingUsage { tokens: 10, seconds: 0.1 };
        write_frame(pipe, &FromWorker::Embedded { id, embedded, usage }).unwrap();
    };
    write_frame(&mut pipe, &FromWorker::Loaded { model_path, context_length: 512 }).unwrap();
    let mut held = Vec::new();
    while let Ok(Some(frame)) = read_frame::<ToWorker>(&mut input) {
        let ToWorker::Embed { id, text, .. } = frame else { continue };
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("hold", _) => held.push((id, text)),
            ("release", _) => {
                for (id, text) in held.drain(..).chain([(id, text)]) {
                    answer(&mut pipe, id, &text);
                }
            }
            ("refuse", message) => {
                let (code, message) = (LocalErrorCode::ModelMissing, message.to_owned());
                write_frame(&mut pipe, &FromWorker::Failed { id, code, message }).unwrap();
            }
            ("hang", _) => loop {
                std::thread::park();
            },
            ("crash", words) => {
                eprintln!("{words}");
                std::process::abort();
            }
            ("garbage", _) => pipe.write_all(b"\0\0\0\x05hello").unwrap(),
            _ => answer(&mut pipe, id, &text),
        }
    }
}

fn follow(script: &str, id: u64, input: &mut impl Read, pipe: &mut impl Write) -> Option<FinishReason> {
    for step in script.split(';') {
        match step.split_once(' ').unwrap_or((step, "")) {
            ("say", text) => write_frame(pipe, &FromWorker::Text { id, text: text.to_owned() }).unwrap(),
            ("work", _) => write_frame(pipe, &FromWorker::Working).unwrap(),
            ("crash", words) => {
                eprintln!("{words}");
                std::process::abort();
            }
            ("leave", code) => std::process::exit(code.parse().unwrap()),
            ("hang", _) => loop {
                std::thread::park();
            },
            ("garbage", _) => pipe.write_all(b"\0\0\0\x05hello").unwrap(),
            ("oversize", _) => pipe.write_all(&[0xFF; 8]).unwrap(),
            ("cut", _) => {
                pipe.write_all(b"\0\0\0\x05he").unwrap();
                std::process::exit(0);
            }
            ("until-cancelled", _) => loop {
                match read_frame::<ToWorker>(input) {
                    Ok(Some(ToWorker::Cancel { id: cancelled })) if cancelled == id => {
                        return Some(FinishReason::Cancelled);
                    }
                    Ok(Some(_)) => {}
                    _ => std::process::exit(0),
                }
            },
            (other, _) => panic!("no such step: {other}"),
        }
    }
    Some(FinishReason::Stop)
}
