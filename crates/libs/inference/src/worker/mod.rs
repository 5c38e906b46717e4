//! The inference process: requests in on standard input, frames out on what was standard output.
//!
//! What it is for, writing replies or embedding texts, is said by the first frame. One thread
//! reads, so that a cancellation or a query is seen at once; the main one loads models and works. The process ends as soon as its standard input closes, whatever it is doing, so it
//! never outlives the daemon.
//!
//! Invariant: nothing but frames goes over the pipe. Before native code runs, standard output is
//! made the same as standard error.

mod cpu;
mod embed;
pub mod engine;
mod inbox;
#[cfg(feature = "local-model")]
mod llama;
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
mod template;
mod text;
mod tool_calls;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::{Clock, Timestamp};
use parking_lot::Mutex;

pub use cpu::missing_cpu_features;

use crate::protocol::{self, FromWorker, ProtocolError, ToWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Cancelled, Inbox, Waiting};
use crate::{FinishReason, LocalError, LocalErrorCode};

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
    run_as(|configuration, inbox, outbox| generate(clock, configuration, inbox, outbox))
}

/// Runs the process; `generate` serves requests for replies.
fn run_as(generate: impl Fn(&WorkerConfiguration, &Inbox, &Outbox) -> ExitCode) -> ExitCode {
    let (mut input, outbox) = match take_over_pipes() {
        Ok(pipes) => pipes,
        Err(error) => return complain(&format!("the inference process has no pipes to the daemon: {error}")),
    };
    match protocol::read_frame::<ToWorker>(&mut input) {
        Ok(Some(ToWorker::Configure(configuration))) => {
            let inbox = Arc::new(Inbox::new(configuration.max_parallel));
            let on_request = {
                let (inbox, outbox) = (Arc::clone(&inbox), outbox.clone());
                move |frame| take_in(frame, &inbox, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => generate(&configuration, &inbox, &outbox),
                Err(error) => complain(&format!("no thread could be started: {error}")),
            }
        }
        Ok(Some(ToWorker::ConfigureEmbedder(configuration))) => {
            let queue = Arc::new(embed::Queue::new(configuration.max_queue));
            let on_request = {
                let (limits, queue, outbox) = (configuration.limits, Arc::clone(&queue), outbox.clone());
                move |frame| embed::take_in(frame, &limits, &queue, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => embed::run(&configuration, &queue, &outbox),
                Err(error) => complain(&format!("no thread could be started: {error}")),
            }
        }
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(_)) => complain("the first frame was not the configuration"),
        Err(error) => complain(&error.to_string()),
    }
}

/// Whether a chat template puts tools into the prompt, and calls in a form that can be read back.
pub(crate) fn has_tools(template: String) -> bool {
    let (none, tokens) = (String::new(), template::SpecialTokens::default());
    template::ChatTemplate::new(Some(template), none.clone(), none, tokens, Timestamp::default())
        .is_ok_and(|template| template.tool_format().is_some())
}

/// The frames' pipes, taken away from everything else in this process.
fn take_over_pipes() -> io::Result<(File, Outbox)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok((File::from(input), Outbox(Arc::new(Mutex::new(File::from(output))))))
}

/// A frame that does not belong there.
struct Misplaced(&'static str);

/// Reads requests in a thread of their own, until the daemon is gone or breaks the protocol. Either
/// ends the process.
fn start_reading(
    mut input: File,
    mut on_request: impl FnMut(ToWorker) -> Result<(), Misplaced> + Send + 'static,
) -> io::Result<()> {
    // Whatever ends this thread ends the process: without it nobody would notice the daemon's end.
    struct ExitWithThread;
    impl Drop for ExitWithThread {
        fn drop(&mut self) {
            exit_now(EXIT_PROTOCOL);
        }
    }
    let read = move || {
        let _guard = ExitWithThread;
        loop {
            match protocol::read_frame::<ToWorker>(&mut input) {
                Ok(Some(frame)) => {
                    if let Err(Misplaced(why)) = on_request(frame) {
                        complain(why);
                        return;
                    }
                }
                Ok(None) => exit_now(EXIT_DAEMON_GONE),
                Err(ProtocolError::Truncated) => exit_now(EXIT_DAEMON_GONE),
                Err(error) => {
                    complain(&error.to_string());
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("requests".to_owned()).spawn(read).map(|_| ())
}

/// A request to the process that writes replies.
fn take_in(frame: ToWorker, inbox: &Inbox, outbox: &Outbox) -> Result<(), Misplaced> {
    match frame {
        ToWorker::Generate { id, request } => {
            if inbox.push(Waiting { id, request }).is_err() {
                outbox.send(&FromWorker::Failed {
                    id,
                    code: LocalErrorCode::Overloaded,
                    message: "too many requests wait for the model inside; try again later".to_owned(),
                });
            }
            Ok(())
        }
        ToWorker::Cancel { id } => {
            if inbox.cancel(id) == Cancelled::Queued {
                let (usage, calls) = (WorkerUsage::default(), Vec::new());
                outbox.send(&FromWorker::Finished { id, reason: FinishReason::Cancelled, usage, calls });
            }
            Ok(())
        }
        ToWorker::Configure(_) | ToWorker::ConfigureEmbedder(_) => Err(Misplaced("the configuration came twice")),
        ToWorker::Embed { .. } => Err(Misplaced("this process embeds no texts")),
    }
}

#[cfg(feature = "local-model")]
fn generate(clock: &Clock, configuration: &WorkerConfiguration, inbox: &Inbox, outbox: &Outbox) -> ExitCode {
    if let Some(missing) = missing_cpu_features() {
        return refuse_all(inbox, outbox, LocalErrorCode::UnsupportedCpu, &missing);
    }
    let engine = match llama::Engine::new() {
        Ok(engine) => engine,
        Err(error) => return refuse_all(inbox, outbox, error.code, &error.message),
    };
    serve_models(configuration, inbox, outbox, |path, sign| {
        engine.load(path, configuration.context_length, clock.now(), sign)
    })
}

/// To be called while a file is read.
type LoadingSign = Box<dyn FnMut()>;

/// Loads models as they are asked for, and serves the requests for each.
fn serve_models<M: scheduler::Model>(
    configuration: &WorkerConfiguration,
    inbox: &Inbox,
    outbox: &Outbox,
    load: impl Fn(&Path, LoadingSign) -> Result<M, LocalError>,
) -> ExitCode {
    loop {
        let model_path = inbox.wait();
        match load(&model_path, loading_sign(outbox, &model_path)) {
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

/// Says that the file is being read, at once and then whenever it is called after a while.
fn loading_sign(outbox: &Outbox, model_path: &Path) -> LoadingSign {
    let (outbox, model_path) = (outbox.clone(), model_path.to_path_buf());
    outbox.send(&FromWorker::Loading { model_path: model_path.clone() });
    let mut last = Instant::now();
    Box::new(move || {
        if last.elapsed() >= Duration::from_millis(500) {
            outbox.send(&FromWorker::Loading { model_path: model_path.clone() });
            last = Instant::now();
        }
    })
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
