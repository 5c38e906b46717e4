//! Tools for files in an agent's workspace.

mod edit;
mod list;
mod read;
mod search;
mod write;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::Entropy;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::agents::Agent;
use crate::tools::builtin::input::parse;
use crate::tools::tool::{Author, Consequence, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput};
use crate::workspaces::{RelativePath, Workspace, WorkspaceQuota};

pub(super) use edit::edit_file;
pub(super) use list::list_files;
pub(super) use read::read_file;
pub(super) use search::search_files;
pub(super) use write::write_file;

/// Time limit for walking a tree or reading a file; the rest is skipped.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of the engine. It is longer, so that a tool can report how far it got.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Number of lock stripes for writers; slightly more than there are blocking threads.
const LOCK_STRIPES: usize = 64;

/// State shared by the file tools. Cheap to clone.
#[derive(Clone)]
pub(super) struct Files(Arc<Inner>);

struct Inner {
    entropy: Entropy,
    quota: WorkspaceQuota,
    /// Calls run concurrently, but two calls must not modify the same file at once.
    locks: [tokio::sync::Mutex<()>; LOCK_STRIPES],
}

impl Files {
    pub(super) fn new(entropy: Entropy, quota: WorkspaceQuota) -> Self {
        Self(Arc::new(Inner { entropy, quota, locks: std::array::from_fn(|_| tokio::sync::Mutex::new(())) }))
    }

    /// Waits until no other call modifies this file.
    async fn lock(&self, context: &ToolCallContext, path: &RelativePath) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        (&context.workspace, path.to_string()).hash(&mut hasher);
        let lock = usize::try_from(hasher.finish() % LOCK_STRIPES as u64).unwrap_or(0);
        match self.0.locks.get(lock) {
            Some(lock) => lock.lock().await,
            None => self.0.locks[0].lock().await,
        }
    }

    /// Returns the quota of workspaces.
    fn quota(&self) -> WorkspaceQuota {
        self.0.quota.clone()
    }

    /// Returns a unique name for a temporary file.
    fn mark(&self) -> String {
        hex::encode(self.0.entropy.bytes::<12>())
    }
}

/// A file tool: its description and its function.
struct FileTool<F> {
    description: ToolDescription,
    run: F,
}

impl<F> std::fmt::Debug for FileTool<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTool").field("name", &self.description.name).finish_non_exhaustive()
    }
}

impl<F> Tool for FileTool<F>
where
    F: Fn(Map<String, Value>, ToolCallContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync,
{
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Trusted
    }

    /// Reads and writes stay within the agent's own workspace.
    fn consequence<'a>(&'a self, _input: &'a Map<String, Value>, _agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        std::future::ready(Consequence::Contained).boxed()
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        (self.run)(input, context)
    }
}

/// Creates a tool from a description and an async function.
fn tool<I, F, R>(description: ToolDescription, run: F) -> Arc<dyn Tool>
where
    I: DeserializeOwned + Send + 'static,
    F: Fn(I, ToolCallContext) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let run = move |input: Map<String, Value>, context: ToolCallContext| {
        let run = run.clone();
        async move { run(parse(input)?, context).await }.boxed()
    };
    Arc::new(FileTool { description, run })
}

/// Runs work on the workspace on a blocking thread.
async fn blocking<T, W>(context: &ToolCallContext, work: W) -> Result<T, ToolError>
where
    T: Send + 'static,
    W: FnOnce(&Workspace, &Deadline) -> Result<T, ToolError> + Send + 'static,
{
    let (folder, deadline) = (context.workspace.clone(), Deadline::new(context.cancelled.clone()));
    let done = tokio::task::spawn_blocking(move || work(&Workspace::open(&folder)?, &deadline)).await;
    done.map_err(|_| ToolError::Failed("the tool was aborted".to_owned()))?
}

/// Time limit and cancellation of potentially long work.
struct Deadline {
    until: Instant,
    cancelled: CancellationToken,
}

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "how long real work takes, which no test moves")]
    fn new(cancelled: CancellationToken) -> Self {
        Self { until: Instant::now() + TIME_LIMIT, cancelled }
    }

    #[allow(clippy::disallowed_methods, reason = "how long real work takes, which no test moves")]
    fn is_over(&self) -> bool {
        self.cancelled.is_cancelled() || Instant::now() >= self.until
    }
}

/// Formats a count with its noun: `1 line`, `2 lines`.
fn format_count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests;
