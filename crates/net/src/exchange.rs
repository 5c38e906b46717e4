//! What answers requests, where it is not the network.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use crate::NetError;

/// An answer that is waited for.
pub type Exchanging = Pin<Box<dyn Future<Output = Result<reqwest::Response, NetError>> + Send>>;

/// Answers what has passed the policy in the place of the network: a test that plays the world outside.
pub trait Exchange: Send + Sync + Debug {
    /// Dropping the future ends the exchange. The request's time limit is for the answerer to keep.
    fn exchange(&self, request: reqwest::Request) -> Exchanging;
}
