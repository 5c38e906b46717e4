//! The model inside as a provider: which file it is, and the same trait as the vendors.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_base::Entropy;
use agentd_inference::spawn::Spawner;
use agentd_inference::{
    ChatMessage, GenerateRequest, LocalError, LocalErrorCode, LocalEvent, LocalModel, LocalModelOptions, LocalStatus,
};
use agentd_llm::{
    Finish, FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, ModelMessage, ModelRequest,
    ModelStream, Usage, UsageSource,
};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::error::ProviderError;

/// How the inference process is started, and where model files are looked for.
#[derive(Debug, Clone)]
pub struct LocalSetup {
    /// The daemon's own binary and its hidden subcommand.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// In the order in which they are searched.
    pub folders: Vec<PathBuf>,
    pub idle_unload: Duration,
}

/// The model files that are there, and the process that runs one of them.
#[derive(Debug, Clone)]
pub struct LocalModels {
    model: LocalModel,
    folders: Vec<PathBuf>,
}

impl LocalModels {
    /// Starts nothing but the thread that would start the process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(setup: LocalSetup, entropy: Entropy) -> Result<Self, ProviderError> {
        let spawner = Spawner::start().map_err(ProviderError::Spawner)?;
        let mut options = LocalModelOptions::new(setup.program, setup.arguments, spawner, entropy);
        options.idle_unload = setup.idle_unload;
        Ok(Self { model: LocalModel::new(options), folders: setup.folders })
    }

    /// The file of this name, or the first GGUF file there is.
    pub(super) fn find(&self, name: Option<&str>) -> Result<PathBuf, ProviderError> {
        if !agentd_inference::BUILT_IN {
            let message = "this build of the daemon has no model inside; build it with the feature `local-model`";
            return Err(ProviderError::LocalUnavailable(message.to_owned()));
        }
        let mut files = self.folders.iter().flat_map(|folder| files_in(folder));
        match name {
            None => files.next().ok_or_else(|| {
                let message = "the model inside has no file yet: run `make models`, or put a GGUF file under models/ in \
                               the data directory";
                ProviderError::LocalUnavailable(message.to_owned())
            }),
            Some(name) => files.find(|file| file.file_name().is_some_and(|own| own == name)).ok_or_else(|| {
                let shown: String = name.chars().take(100).collect();
                ProviderError::LocalUnavailable(format!(
                    "there is no model file `{shown}` under models/ in the data directory; put it there, or clear \
                     `agent.local_model`"
                ))
            }),
        }
    }

    pub(super) fn status(&self) -> LocalStatus {
        self.model.status()
    }

    pub(super) fn backend(&self, file: PathBuf) -> LocalBackend {
        LocalBackend { model: self.model.clone(), file }
    }

    /// Ends the process.
    pub async fn shut_down(&self) {
        self.model.shutdown().await;
    }
}

/// GGUF files of a folder by name. Read anew each time: a file that was just put there is found.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")))
        .collect();
    files.sort();
    files
}

/// One model file behind the trait that the vendors have too.
#[derive(Debug, Clone)]
pub(super) struct LocalBackend {
    model: LocalModel,
    file: PathBuf,
}

fn chat_message(message: ModelMessage) -> ChatMessage {
    match message {
        ModelMessage::User { content } => ChatMessage::user(content),
        ModelMessage::Assistant { content, .. } => ChatMessage::assistant(content),
        ModelMessage::Tool { name, content, .. } => ChatMessage::user(format!("Result of {name}: {content}")),
    }
}

fn model_error(error: LocalError) -> ModelError {
    let code = match error.code {
        LocalErrorCode::Overloaded => ModelErrorCode::Overloaded,
        LocalErrorCode::ContextLength => ModelErrorCode::ContextLength,
        LocalErrorCode::Unavailable | LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu => {
            ModelErrorCode::ProviderUnavailable
        }
        LocalErrorCode::Internal | LocalErrorCode::Invalid => ModelErrorCode::Internal,
    };
    ModelError::new(code, error.message)
}

fn model_event(event: LocalEvent) -> ModelEvent {
    match event {
        LocalEvent::Text(text) => ModelEvent::Text(text),
        LocalEvent::Finished { reason, input_tokens, output_tokens } => ModelEvent::Finished(Finish {
            reason: match reason {
                agentd_inference::FinishReason::Length => FinishReason::Length,
                agentd_inference::FinishReason::Stop | agentd_inference::FinishReason::Cancelled => FinishReason::Stop,
            },
            usage: Usage {
                input_tokens: u64::from(input_tokens),
                output_tokens: u64::from(output_tokens),
                cache_read_tokens: 0,
                cache_write_tokens: 0,
                reasoning_tokens: 0,
                source: UsageSource::Provider,
            },
        }),
    }
}

impl ModelBackend for LocalBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let messages = request.messages.into_iter().map(chat_message).collect();
        let mut wanted = GenerateRequest::new(&self.file, request.system.unwrap_or_default(), messages);
        if let Some(temperature) = request.temperature {
            #[allow(clippy::cast_possible_truncation, reason = "a temperature between 0 and 2")]
            let temperature = temperature as f32;
            wanted.temperature = temperature;
        }
        wanted.max_output_tokens = request.max_output_tokens;
        let events = self.model.generate(wanted);
        let deadline = Instant::now() + request.timeout;
        let limit = request.timeout;
        let stream = stream::unfold(Some(events), move |events| async move {
            let mut events = events?;
            match tokio::time::timeout_at(deadline, events.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(event))) => Some((Ok(model_event(event)), Some(events))),
                Ok(Some(Err(error))) => Some((Err(model_error(error)), None)),
                Err(_) => {
                    let message = format!(
                        "the model inside was not done after {} s; raise `agent.request_timeout_seconds`",
                        limit.as_secs()
                    );
                    Some((Err(ModelError::new(ModelErrorCode::Timeout, message)), None))
                }
            }
        });
        Box::pin(async move { Ok(Box::pin(stream) as ModelStream) })
    }
}
