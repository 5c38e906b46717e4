//! The seam between the daemon and whatever runs a model.

use std::pin::Pin;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use crate::{ModelError, ModelEvent, ModelRequest};

/// A running answer. It ends with [`ModelEvent::Finished`] or with one error, and nothing comes
/// after either. What came before an error stands: it is the caller's to keep. Dropping the
/// stream stops the model, as far as the vendor notices a closed connection.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Something that can run a model: a vendor, the model inside the daemon, a script in a test.
pub trait ModelBackend: Send + Sync + std::fmt::Debug {
    /// Starts a call. Failures before the first piece (a refused key, a rate limit) come as the
    /// error of the future; nothing is tried twice.
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>>;
}
