//! Pipes between this process and the daemon.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::{self, FromWorker, ProtocolError, ToWorker};

/// Exit code if the daemon is gone. The process ends without destructors, since native threads may be running.
const EXIT_DAEMON_GONE: i32 = 0;
const EXIT_PROTOCOL: i32 = 3;

/// Writer for the frames that this process sends.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Mutex<File>>);

impl Outbox {
    /// Sends a frame. Ends the process if the daemon no longer reads.
    pub(super) fn send(&self, frame: &FromWorker) {
        if protocol::write_frame(&mut *self.0.lock(), frame).is_err() {
            exit_now(EXIT_DAEMON_GONE);
        }
    }
}

/// Takes over the protocol's pipes, so that no other code in this process can use them.
pub(super) fn take_over_pipes() -> io::Result<(File, Outbox)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok((File::from(input), Outbox(Arc::new(Mutex::new(File::from(output))))))
}

/// Error for an unexpected frame.
pub(super) struct UnexpectedFrame(pub(super) &'static str);

/// Reads requests in a separate thread. The process ends if the daemon closes the pipe or violates the protocol.
pub(super) fn start_reading(
    mut input: File,
    mut on_request: impl FnMut(ToWorker) -> Result<(), UnexpectedFrame> + Send + 'static,
) -> io::Result<()> {
    // The end of this thread ends the process; otherwise, the end of the daemon would not be noticed.
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
                    if let Err(UnexpectedFrame(why)) = on_request(frame) {
                        fail_with_message(why);
                        return;
                    }
                }
                Ok(None) => exit_now(EXIT_DAEMON_GONE),
                Err(ProtocolError::Truncated) => exit_now(EXIT_DAEMON_GONE),
                Err(error) => {
                    fail_with_message(&error.to_string());
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("requests".to_owned()).spawn(read).map(|_| ())
}

/// Callback to invoke while a file is read.
pub(super) type LoadingReporter = Box<dyn FnMut()>;

/// Returns a callback that reports the loading of the file, initially and then periodically.
pub(super) fn loading_reporter(outbox: &Outbox, model_path: &Path) -> LoadingReporter {
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

#[allow(clippy::print_stderr, reason = "standard error is this process's log, read by the daemon")]
pub(super) fn fail_with_message(line: &str) -> ExitCode {
    eprintln!("{line}");
    ExitCode::FAILURE
}

#[allow(unsafe_code, reason = "only the system call ends a process at once")]
fn exit_now(code: i32) -> ! {
    // SAFETY: always sound. Destructors and exit handlers are skipped intentionally: they would free the engine's state
    // while its threads still use it.
    unsafe { libc::_exit(code) }
}
