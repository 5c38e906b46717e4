//! Reads a program's error output for as long as it is connected, so that the program never waits
//! for somebody to read it, and keeps the end of it.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

use crate::budget::Budget;
use crate::session::Session;

const READ_BYTES: usize = 8 * 1024;

/// The running reader; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct StderrReader(JoinHandle<()>);

impl StderrReader {
    pub(crate) fn start(mut stderr: impl AsyncRead + Send + Unpin + 'static, session: Session) -> Self {
        Self(tokio::spawn(async move {
            // Its own account: a noisy error output must not slow the protocol down.
            let budget = Budget::new();
            let mut chunk = vec![0; READ_BYTES];
            while let Ok(read) = stderr.read(&mut chunk).await {
                if read == 0 {
                    break;
                }
                session.note_noise(&chunk[..read]);
                budget.charge_skipped(read);
                budget.wait().await;
            }
        }))
    }

    /// Waits until the program has closed its error output, at most `limit`: one that ends writes
    /// the reason last.
    pub(crate) async fn settle(&mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, &mut self.0).await;
    }
}

impl Drop for StderrReader {
    fn drop(&mut self) {
        self.0.abort();
    }
}
