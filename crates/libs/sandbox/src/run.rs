//! Complete run: writes the input, captures the output and enforces the limits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::capture::{Capture, Captured};
use crate::child::SandboxedChild;
use crate::{Ended, RunLimits};

/// Maximum wait for further output after everything has ended.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

struct Output {
    bytes: AtomicU64,
    limit: u64,
    exceeded: Notify,
}

pub(crate) async fn collect(
    child: &mut SandboxedChild,
    stdin: Vec<u8>,
    limits: &RunLimits,
    time_limit: Duration,
) -> (Ended, Captured, Captured) {
    let output = Output { bytes: AtomicU64::new(0), limit: limits.output_bytes, exceeded: Notify::new() };
    let (to_program, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut kept_stdout, mut kept_stderr) = (Capture::new(limits.kept_bytes), Capture::new(limits.kept_bytes));
    let ended = {
        let write = async {
            if let Some(mut to_program) = to_program {
                // A program may ignore its input.
                let _ = to_program.write_all(&stdin).await;
            }
        };
        let read = async {
            tokio::join!(keep(stdout, &mut kept_stdout, &output), keep(stderr, &mut kept_stderr, &output), write)
        };
        tokio::pin!(read);
        let mut is_read = false;
        let ended = async {
            tokio::select! {
                ended = child.wait() => ended,
                () = tokio::time::sleep(time_limit) => stop(child, Ended::TimeLimit).await,
                () = output.exceeded.notified() => stop(child, Ended::OutputLimit).await,
            }
        };
        tokio::pin!(ended);
        let ended = loop {
            tokio::select! {
                _ = &mut read, if !is_read => is_read = true,
                ended = &mut ended => break ended,
            }
        };
        if !is_read {
            let _ = tokio::time::timeout(OUTPUT_DRAIN_TIMEOUT, read).await;
        }
        ended
    };
    // The last part of the output may exceed the limit.
    let ended = match ended {
        Ended::Exited { .. } if output.bytes.load(Ordering::Relaxed) > output.limit => Ended::OutputLimit,
        ended => ended,
    };
    (ended, kept_stdout.finish(), kept_stderr.finish())
}

async fn stop(child: &SandboxedChild, reason: Ended) -> Ended {
    child.kill();
    match child.wait().await {
        // The program ended by itself at the same moment.
        ended @ (Ended::Exited { .. } | Ended::NotStarted { .. } | Ended::MemoryLimit { .. }) => ended,
        _ => reason,
    }
}

async fn keep(from: Option<impl AsyncRead + Unpin>, to: &mut Capture, output: &Output) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 64 << 10];
    // A pipe error is treated as its end.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        to.push(&buffer[..length]);
        let total = output.bytes.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        if total > output.limit {
            output.exceeded.notify_one();
        }
    }
}
