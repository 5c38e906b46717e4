//! Batches of streamed rows.

use tokio::sync::mpsc;

use crate::StoreError;
use crate::row::Row;
use crate::value::Value;

/// Maximum number of rows and bytes per batch.
const BATCH_ROWS: usize = 64;
const BATCH_BYTES: usize = 256 * 1024;

/// Batch of rows collected by the reading thread.
pub(super) struct Batch {
    rows: Vec<Result<Row, StoreError>>,
    bytes: usize,
    sender: mpsc::Sender<Vec<Result<Row, StoreError>>>,
}

impl Batch {
    pub(super) fn new(sender: mpsc::Sender<Vec<Result<Row, StoreError>>>) -> Self {
        Self { rows: Vec::new(), bytes: 0, sender }
    }

    /// Adds a row; returns whether the receiver still wants more.
    pub(super) fn push(&mut self, row: Row) -> bool {
        self.bytes += row.values.iter().map(Value::size).sum::<usize>();
        self.rows.push(Ok(row));
        if self.rows.len() < BATCH_ROWS && self.bytes < BATCH_BYTES {
            return true;
        }
        self.bytes = 0;
        self.sender.blocking_send(std::mem::take(&mut self.rows)).is_ok()
    }

    pub(super) fn end(mut self, read: Result<(), StoreError>) {
        self.rows.extend(read.err().map(Err));
        if !self.rows.is_empty() {
            // An error means that the receiver is gone.
            let _ = self.sender.blocking_send(self.rows);
        }
    }
}
