//! Interface between the daemon and model backends.

use std::pin::Pin;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use crate::{ModelError, ModelEvent, ModelRequest};

/// Streamed answer. It ends with [`ModelEvent::Finished`] or with one error, and no item follows either. Events before
/// an error remain valid; the caller may keep them. Dropping the stream stops the model, if the vendor detects closed
/// connections.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Backend that runs a model: a vendor, the local model, or a script in a test.
pub trait ModelBackend: Send + Sync + std::fmt::Debug {
    /// Starts a call. Failures before the first event (such as a rejected key or a rate limit) are returned as the
    /// future's error; nothing is retried.
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>>;
}
