//! The tools for files in an agent's workspace.

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
use crate::workspaces::{RelativePath, Room, Workspace};

pub(super) use edit::edit_file;
pub(super) use list::list_files;
pub(super) use read::read_file;
pub(super) use search::search_files;
pub(super) use write::write_file;

/// More of a tree or of a file than fits into this is not looked at.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// What the engine waits for: longer, so that a tool can say itself how far it got.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Turns of writers; a few more than there are threads for them.
const TURNS: usize = 64;

/// What the file tools share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Files(Arc<Inner>);

struct Inner {
    entropy: Entropy,
    room: Room,
    /// Calls run side by side; two that change one file must not.
    turns: [tokio::sync::Mutex<()>; TURNS],
}

impl Files {
    pub(super) fn new(entropy: Entropy, room: Room) -> Self {
        Self(Arc::new(Inner { entropy, room, turns: std::array::from_fn(|_| tokio::sync::Mutex::new(())) }))
    }

    /// Waits until nobody else changes this file.
    async fn turn(&self, context: &ToolCallContext, path: &RelativePath) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        (&context.workspace, path.to_string()).hash(&mut hasher);
        let turn = usize::try_from(hasher.finish() % TURNS as u64).unwrap_or(0);
        match self.0.turns.get(turn) {
            Some(turn) => turn.lock().await,
            None => self.0.turns[0].lock().await,
        }
    }

    /// What workspaces hold and may hold.
    fn room(&self) -> Room {
        self.0.room.clone()
    }

    /// A name for a temporary file that nobody has had.
    fn mark(&self) -> String {
        hex::encode(self.0.entropy.bytes::<12>())
    }
}

/// One of the tools: what it says of itself, and what it does.
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

    /// Whether it reads or writes: the workspace is the agent's own.
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

/// A tool out of a description and an async function.
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

/// Works on the workspace, on a thread that may block.
async fn blocking<T, W>(context: &ToolCallContext, work: W) -> Result<T, ToolError>
where
    T: Send + 'static,
    W: FnOnce(&Workspace, &Patience) -> Result<T, ToolError> + Send + 'static,
{
    let (folder, patience) = (context.workspace.clone(), Patience::new(context.cancelled.clone()));
    let done = tokio::task::spawn_blocking(move || work(&Workspace::open(&folder)?, &patience)).await;
    done.map_err(|_| ToolError::Failed("the tool broke off".to_owned()))?
}

/// How long work that may be endless goes on.
struct Patience {
    until: Instant,
    cancelled: CancellationToken,
}

impl Patience {
    #[allow(clippy::disallowed_methods, reason = "how long real work takes, which no test moves")]
    fn new(cancelled: CancellationToken) -> Self {
        Self { until: Instant::now() + TIME_LIMIT, cancelled }
    }

    #[allow(clippy::disallowed_methods, reason = "how long real work takes, which no test moves")]
    fn is_over(&self) -> bool {
        self.cancelled.is_cancelled() || Instant::now() >= self.until
    }
}

/// `1 line`, `2 lines`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests;
