//! Reader of a program's error output. It reads as long as the connection lasts, so that the program never blocks, and
//! retains the end.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

use crate::budget::Budget;
use crate::session::Session;

const READ_BYTES: usize = 8 * 1024;

/// Running reader task; aborted on drop.
#[derive(Debug)]
pub(crate) struct StderrReader(JoinHandle<()>);

impl StderrReader {
    pub(crate) fn start(mut stderr: impl AsyncRead + Send + Unpin + 'static, session: Session) -> Self {
        Self(tokio::spawn(async move {
            // Separate budget: excessive error output must not slow the protocol down.
            let budget = Budget::new();
            let mut chunk = vec![0; READ_BYTES];
            while let Ok(read) = stderr.read(&mut chunk).await {
                if read == 0 {
                    break;
                }
                session.record_other_output(&chunk[..read]);
                budget.charge_skipped(read);
                budget.wait().await;
            }
        }))
    }

    /// Waits up to `limit` until the program has closed its error output: the reason for an exit is written last.
    pub(crate) async fn wait_for_end(&mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, &mut self.0).await;
    }
}

impl Drop for StderrReader {
    fn drop(&mut self) {
        self.0.abort();
    }
}
