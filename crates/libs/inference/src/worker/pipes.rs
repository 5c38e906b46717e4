//! The pipes between this process and the daemon.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::{self, FromWorker, ProtocolError, ToWorker};

/// Ends the process without running destructors: native threads may be at work.
const EXIT_DAEMON_GONE: i32 = 0;
const EXIT_PROTOCOL: i32 = 3;

/// The daemon's end of the frames that this process sends.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Mutex<File>>);

impl Outbox {
    /// A daemon that no longer reads is gone.
    pub(super) fn send(&self, frame: &FromWorker) {
        if protocol::write_frame(&mut *self.0.lock(), frame).is_err() {
            exit_now(EXIT_DAEMON_GONE);
        }
    }
}

/// The frames' pipes, taken away from everything else in this process.
pub(super) fn take_over_pipes() -> io::Result<(File, Outbox)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok((File::from(input), Outbox(Arc::new(Mutex::new(File::from(output))))))
}

/// A frame that does not belong there.
pub(super) struct Misplaced(pub(super) &'static str);

/// Reads requests in a thread of their own, until the daemon is gone or breaks the protocol. Either
/// ends the process.
pub(super) fn start_reading(
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

/// To be called while a file is read.
pub(super) type LoadingSign = Box<dyn FnMut()>;

/// Says that the file is being read, at once and then whenever it is called after a while.
pub(super) fn loading_sign(outbox: &Outbox, model_path: &Path) -> LoadingSign {
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
pub(super) fn complain(line: &str) -> ExitCode {
    eprintln!("{line}");
    ExitCode::FAILURE
}

#[allow(unsafe_code, reason = "only the system call ends a process at once")]
fn exit_now(code: i32) -> ! {
    // SAFETY: always sound. Destructors and exit handlers are left out on purpose: they would free
    // the engine's state while its threads still use it.
    unsafe { libc::_exit(code) }
}
