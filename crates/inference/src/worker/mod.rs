//! The inference process: requests in on standard input, frames out on what was standard output.
//!
//! Two threads: this one reads, so that a cancellation is seen at once; the main one loads models
//! and generates. The process ends as soon as its standard input closes, whatever it is doing, so it
//! never outlives the daemon.
//!
//! Invariant: nothing but frames goes over the pipe. Before native code runs, standard output is
//! made the same as standard error.

mod cpu;
mod inbox;
#[cfg(feature = "local-model")]
mod llama;
#[cfg(any(feature = "local-model", test))]
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
#[cfg(any(feature = "local-model", test))]
mod template;
#[cfg(any(feature = "local-model", test))]
mod text;

use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use agentd_base::Clock;
use parking_lot::Mutex;

pub use cpu::missing_cpu_features;

use crate::protocol::{self, FromWorker, ProtocolError, ToWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Cancelled, Inbox, Waiting};
use crate::{FinishReason, LocalErrorCode};

/// Ends the process without running destructors: native threads may be at work.
const EXIT_DAEMON_GONE: i32 = 0;
const EXIT_PROTOCOL: i32 = 3;

/// The daemon's end of the frames that this process sends.
#[derive(Clone)]
struct Outbox(Arc<Mutex<File>>);

impl Outbox {
    /// A daemon that no longer reads is gone.
    fn send(&self, frame: &FromWorker) {
        if protocol::write_frame(&mut *self.0.lock(), frame).is_err() {
            exit_now(EXIT_DAEMON_GONE);
        }
    }
}

/// Runs the inference process until its standard input closes. `clock` is for templates that print the date.
#[must_use]
pub fn run(clock: &Clock) -> ExitCode {
    let (mut input, outbox) = match take_over_pipes() {
        Ok(pipes) => pipes,
        Err(error) => return complain(&format!("the inference process has no pipes to the daemon: {error}")),
    };
    let configuration = match protocol::read_frame::<ToWorker>(&mut input) {
        Ok(Some(ToWorker::Configure(configuration))) => configuration,
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(_)) => return complain("the first frame was not the configuration"),
        Err(error) => return complain(&error.to_string()),
    };
    let inbox = Arc::new(Inbox::new(configuration.max_queue + configuration.max_parallel));
    let reader = {
        let (inbox, outbox) = (Arc::clone(&inbox), outbox.clone());
        std::thread::Builder::new().name("requests".to_owned()).spawn(move || read_requests(input, &inbox, &outbox))
    };
    if let Err(error) = reader {
        return complain(&format!("no thread could be started: {error}"));
    }
    generate(clock, &configuration, &inbox, &outbox)
}

/// The frames' pipes, taken away from everything else in this process.
fn take_over_pipes() -> io::Result<(File, Outbox)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok((File::from(input), Outbox(Arc::new(Mutex::new(File::from(output))))))
}

fn read_requests(mut input: File, inbox: &Inbox, outbox: &Outbox) {
    // Whatever ends this thread ends the process: without it nobody would notice the daemon's end.
    struct ExitWithThread;
    impl Drop for ExitWithThread {
        fn drop(&mut self) {
            exit_now(EXIT_PROTOCOL);
        }
    }
    let _guard = ExitWithThread;
    loop {
        match protocol::read_frame::<ToWorker>(&mut input) {
            Ok(Some(ToWorker::Generate { id, request })) => {
                if inbox.push(Waiting { id, request }).is_err() {
                    outbox.send(&FromWorker::Failed {
                        id,
                        code: LocalErrorCode::Overloaded,
                        message: "too many requests wait for the model inside; try again later".to_owned(),
                    });
                }
            }
            Ok(Some(ToWorker::Cancel { id })) => {
                if inbox.cancel(id) == Cancelled::Queued {
                    let usage = WorkerUsage::default();
                    outbox.send(&FromWorker::Finished { id, reason: FinishReason::Cancelled, usage });
                }
            }
            Ok(Some(ToWorker::Configure(_))) => {
                complain("the configuration came twice");
                return;
            }
            Ok(None) => exit_now(EXIT_DAEMON_GONE),
            Err(ProtocolError::Truncated) => exit_now(EXIT_DAEMON_GONE),
            Err(error) => {
                complain(&error.to_string());
                return;
            }
        }
    }
}

#[cfg(feature = "local-model")]
fn generate(clock: &Clock, configuration: &WorkerConfiguration, inbox: &Inbox, outbox: &Outbox) -> ExitCode {
    use std::time::{Duration, Instant};

    use crate::worker::scheduler::Model as _;

    if let Some(missing) = missing_cpu_features() {
        return refuse_all(inbox, outbox, LocalErrorCode::UnsupportedCpu, &missing);
    }
    let engine = match llama::Engine::new() {
        Ok(engine) => engine,
        Err(error) => return refuse_all(inbox, outbox, error.code, &error.message),
    };
    loop {
        let model_path = inbox.wait();
        outbox.send(&FromWorker::Loading { model_path: model_path.clone() });
        let sign = {
            let (outbox, model_path) = (outbox.clone(), model_path.clone());
            let mut last = Instant::now();
            move || {
                if last.elapsed() >= Duration::from_millis(500) {
                    outbox.send(&FromWorker::Loading { model_path: model_path.clone() });
                    last = Instant::now();
                }
            }
        };
        match engine.load(&model_path, configuration.context_length, clock.now(), sign) {
            Ok(model) => {
                let context_length = model.context_length();
                outbox.send(&FromWorker::Loaded { model_path: model_path.clone(), context_length });
                scheduler::serve(&model, &model_path, inbox, configuration, &|frame| outbox.send(frame));
            }
            Err(error) => {
                while let Some(waiting) = inbox.take(&model_path) {
                    inbox.done(waiting.id);
                    let (code, message) = (error.code, error.message.clone());
                    outbox.send(&FromWorker::Failed { id: waiting.id, code, message });
                }
            }
        }
    }
}

#[cfg(not(feature = "local-model"))]
fn generate(_: &Clock, _: &WorkerConfiguration, inbox: &Inbox, outbox: &Outbox) -> ExitCode {
    refuse_all(inbox, outbox, LocalErrorCode::Unavailable, crate::NOT_BUILT_IN)
}

/// Answers every request with the same error, for as long as the daemon asks.
fn refuse_all(inbox: &Inbox, outbox: &Outbox, code: LocalErrorCode, message: &str) -> ExitCode {
    loop {
        let model_path = inbox.wait();
        while let Some(waiting) = inbox.take(&model_path) {
            inbox.done(waiting.id);
            outbox.send(&FromWorker::Failed { id: waiting.id, code, message: message.to_owned() });
        }
    }
}

#[allow(clippy::print_stderr, reason = "standard error is this process's log, read by the daemon")]
fn complain(line: &str) -> ExitCode {
    eprintln!("{line}");
    ExitCode::FAILURE
}

#[allow(unsafe_code, reason = "only the system call ends a process at once")]
fn exit_now(code: i32) -> ! {
    // SAFETY: always sound. Destructors and exit handlers are left out on purpose: they would free
    // the engine's state while its threads still use it.
    unsafe { libc::_exit(code) }
}
