//! This test binary as a child process: the entry points, and how to start them.
//!
//! The test harness prints to standard output, which belongs to the protocol. So a shell moves the
//! pipe to descriptor 3 first, and the entry point moves it back.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use agentd_base::{Clock, Entropy};
use agentd_inference::LocalModelOptions;
use agentd_inference::protocol::{FromWorker, ToWorker, WorkerUsage, read_frame, write_frame};
use agentd_inference::{FinishReason, worker};
use agentd_process::{SpawnRequest, Spawner};

const PROTOCOL: &str = "/proc/self/fd/3";

/// Options that start `entry`, one of the tests below, as the inference process.
pub(crate) fn options(entry: &str) -> LocalModelOptions {
    let binary = std::env::current_exe().unwrap();
    let arguments: Vec<OsString> = vec![
        "-c".into(),
        "exec \"$0\" \"$1\" --exact --ignored --nocapture --test-threads=1 3>&1 1>&2".into(),
        binary.into(),
        format!("child::{entry}").into(),
    ];
    LocalModelOptions::new(PathBuf::from("/bin/sh"), arguments, Spawner::start().unwrap(), Entropy::seeded(1))
}

/// Standard output as it was given; `None` when this is not run as a child.
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

/// A daemon in small: starts a child, says its process id, and stays until it is killed.
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

/// Does what the last message says, step by step, separated by `;`.
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
                write_frame(&mut pipe, &FromWorker::Finished { id, reason, usage }).unwrap();
            }
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
