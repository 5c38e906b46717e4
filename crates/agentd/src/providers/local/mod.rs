//! The model inside the daemon: its file, and the trait that every model answers to.
//!
//! It has no tool calls of its own; where tools are offered, [`rules`] says whether one is called.
//! Without tools, and where none fits, a reply is the model's own, piece by piece.

mod rules;

use std::path::PathBuf;
use std::time::Duration;

use agentd_inference::embedder::read_model_facts;
use agentd_inference::{
    ChatMessage, ChatRole, FinishReason as LocalFinish, GenerateRequest, LocalError, LocalErrorCode, LocalEvent,
    LocalModel, LocalStream,
};
use agentd_llm::{
    Finish, FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, ModelRequest, ModelStream, ToolCall,
    Usage, UsageSource,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// Where nobody says. Models that fit inside are small, and small ones lose the thread at anything
/// higher.
const DEFAULT_TEMPERATURE: f64 = 0.0;

/// Files below this hold models of fewer than about a thousand million parameters.
const SMALL_MODEL_BYTES: u64 = 600 << 20;

/// Small models follow an example better than an instruction: with this one they answer in a sentence,
/// where without it they ramble. It goes before the first message alone: once there is a reply, the
/// conversation itself is the example, and nobody asks a model about a question that was never asked.
const EXAMPLE: [&str; 2] = ["What is the largest ocean?", "The largest ocean is the Pacific Ocean."];

/// How long a reply of a small model may become where nobody says; what it writes beyond is never of use.
const SMALL_MODEL_OUTPUT: u32 = 500;

/// The model inside, and where its files lie.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    pub model: LocalModel,
    /// Searched in this order for what `local_model` names, or for any GGUF file. The first is
    /// `models/` in the data directory.
    pub folders: Vec<PathBuf>,
}

impl LocalOptions {
    /// The file that `wanted` names, or else the first there is, by folder and then by name.
    ///
    /// # Errors
    /// A sentence on what is missing and how to get it.
    pub(super) fn find(&self, wanted: Option<&str>) -> Result<PathBuf, String> {
        if !agentd_inference::BUILT_IN {
            return Err("this binary was built without the model inside; give a provider its key instead".to_owned());
        }
        self.find_file(wanted)
    }

    pub(super) fn find_file(&self, wanted: Option<&str>) -> Result<PathBuf, String> {
        let found = match wanted {
            Some(name) => self.all_files().into_iter().find(|path| path.file_name().is_some_and(|file| file == name)),
            None => self.files().into_iter().next(),
        };
        let folder = self.folders.first().map(|folder| folder.display().to_string()).unwrap_or_default();
        found.ok_or_else(|| match wanted {
            Some(name) => format!("there is no file {name} in {folder}; put it there, or change `local_model` of PUT /api/settings/agent"),
            None => format!(
                "there is no model file in {folder}; run `make models`, or put a GGUF file there and name it as `local_model` with PUT /api/settings/agent"
            ),
        })
    }

    /// Every file of a model that writes, each name once. The embedding model lies beside them.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = self.all_files();
        files.retain(|path| !read_model_facts(path).is_ok_and(|facts| facts.is_encoder()));
        files
    }

    /// Every model file, each name once.
    fn all_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in &self.folders {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let is_model = |path: &PathBuf| {
                path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) && path.is_file()
            };
            let mut here: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_model).collect();
            here.sort();
            for path in here {
                if !files.iter().any(|known| known.file_name() == path.file_name()) {
                    files.push(path);
                }
            }
        }
        files
    }
}

/// One model file behind the common trait.
#[derive(Debug, Clone)]
pub struct LocalBackend {
    model: LocalModel,
    path: PathBuf,
}

impl LocalBackend {
    #[must_use]
    pub fn new(model: LocalModel, path: PathBuf) -> Self {
        Self { model, path }
    }

    fn request(&self, request: ModelRequest, is_small: bool) -> GenerateRequest {
        let mut messages = rules::conversation(request.messages);
        let is_guided = is_small && request.is_conversation;
        if is_guided && !messages.iter().any(|message| message.role == ChatRole::Assistant) {
            let [question, answer] = EXAMPLE;
            messages.splice(0..0, [ChatMessage::user(question), ChatMessage::assistant(answer)]);
        }
        let mut wanted = GenerateRequest::new(self.path.clone(), request.system.unwrap_or_default(), messages);
        #[allow(clippy::cast_possible_truncation, reason = "a temperature needs no more digits")]
        let temperature = request.temperature.unwrap_or(DEFAULT_TEMPERATURE) as f32;
        wanted.temperature = temperature;
        wanted.max_output_tokens = request.max_output_tokens.or(is_guided.then_some(SMALL_MODEL_OUTPUT));
        wanted
    }
}

impl ModelBackend for LocalBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let limit = request.timeout;
        let deadline = Instant::now() + limit;
        async move {
            let (call, spent) = match self.tool_call(&request, deadline, limit).await? {
                Some((call, spent)) => (call, spent),
                None => (None, Usage::default()),
            };
            if let Some(call) = call {
                let usage = Usage { source: UsageSource::Provider, ..spent };
                let finish = ModelEvent::Finished(Finish { reason: FinishReason::ToolUse, usage });
                return Ok(stream::iter([Ok(ModelEvent::ToolCall(call)), Ok(finish)]).boxed() as ModelStream);
            }
            let is_small = self.is_small().await;
            // What a small model is not let retell.
            if let Some(text) = rules::retold(&request.messages).filter(|_| is_small) {
                let usage = Usage { source: UsageSource::Provider, ..spent };
                let finish = ModelEvent::Finished(Finish { reason: FinishReason::Stop, usage });
                return Ok(stream::iter([Ok(ModelEvent::Text(text)), Ok(finish)]).boxed() as ModelStream);
            }
            let mut replies = self.model.generate(self.request(request, is_small));
            // Whatever fails before the first piece fails the call, as with a vendor.
            let first = next(&mut replies, deadline, limit).await.map(|item| item.map(|event| with(event, spent)));
            if let Some(Err(error)) = first {
                return Err(error);
            }
            let rest = stream::unfold(Some(replies), move |replies| async move {
                let mut replies = replies?;
                let item = next(&mut replies, deadline, limit).await?.map(|event| with(event, spent));
                let is_last = matches!(item, Err(_) | Ok(ModelEvent::Finished(_)));
                Some((item, (!is_last).then_some(replies)))
            });
            Ok(stream::iter(first).chain(rest).boxed() as ModelStream)
        }
        .boxed()
    }
}

impl LocalBackend {
    async fn is_small(&self) -> bool {
        tokio::fs::metadata(&self.path).await.is_ok_and(|file| file.len() < SMALL_MODEL_BYTES)
    }

    /// The call that this request leads to, and what it took; `None` where no tool fits.
    async fn tool_call(
        &self,
        request: &ModelRequest,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Option<(Option<ToolCall>, Usage)>, ModelError> {
        let Some(asked) = rules::asked(request) else { return Ok(None) };
        let messages = request.messages.len();
        let decided = tokio::task::spawn_blocking(move || asked.next_call()).await;
        let plan = decided.map_err(|error| {
            ModelError::new(ModelErrorCode::Internal, "choosing a tool for the model inside failed").with_source(error)
        })?;
        let Some(plan) = plan else { return Ok(None) };
        match timeout_at(deadline, rules::make_call(&self.model, &self.path, plan, messages)).await {
            Ok(Ok(called)) => {
                let usage = Usage {
                    input_tokens: called.input_tokens.into(),
                    output_tokens: called.output_tokens.into(),
                    ..Usage::default()
                };
                Ok(Some((called.call, usage)))
            }
            Ok(Err(error)) => Err(failure(error)),
            Err(_) => Err(too_slow(limit)),
        }
    }
}

/// An event, with the tokens of a tool call that was tried before the reply.
fn with(event: ModelEvent, spent: Usage) -> ModelEvent {
    match event {
        ModelEvent::Finished(mut finish) => {
            finish.usage.input_tokens += spent.input_tokens;
            finish.usage.output_tokens += spent.output_tokens;
            ModelEvent::Finished(finish)
        }
        other => other,
    }
}

async fn next(replies: &mut LocalStream, deadline: Instant, limit: Duration) -> Option<Result<ModelEvent, ModelError>> {
    match timeout_at(deadline, replies.next()).await {
        Ok(item) => item.map(|item| item.map(event).map_err(failure)),
        Err(_) => Some(Err(too_slow(limit))),
    }
}

fn too_slow(limit: Duration) -> ModelError {
    let message =
        format!("the model inside did not finish within {} seconds; raise request_timeout_seconds", limit.as_secs());
    ModelError::new(ModelErrorCode::Timeout, message)
}

fn event(event: LocalEvent) -> ModelEvent {
    match event {
        LocalEvent::Text(text) => ModelEvent::Text(text),
        LocalEvent::Finished { reason, input_tokens, output_tokens } => ModelEvent::Finished(Finish {
            reason: match reason {
                LocalFinish::Stop => FinishReason::Stop,
                LocalFinish::Length => FinishReason::Length,
                LocalFinish::Cancelled => FinishReason::Other,
            },
            usage: Usage {
                input_tokens: input_tokens.into(),
                output_tokens: output_tokens.into(),
                source: UsageSource::Provider,
                ..Usage::default()
            },
        }),
    }
}

fn failure(error: LocalError) -> ModelError {
    let code = match error.code {
        LocalErrorCode::Overloaded => ModelErrorCode::Overloaded,
        LocalErrorCode::ContextLength => ModelErrorCode::ContextLength,
        LocalErrorCode::Unavailable | LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu => {
            ModelErrorCode::ProviderUnavailable
        }
        LocalErrorCode::Internal | LocalErrorCode::Invalid => ModelErrorCode::Internal,
    };
    ModelError::new(code, error.message.clone()).with_source(error)
}

#[cfg(test)]
mod tests {
    use agentd_base::Entropy;
    use agentd_inference::LocalModelOptions;
    use agentd_llm::{ModelMessage, Schema, ToolDefinition};
    use agentd_process::Spawner;

    use super::*;

    fn options(folders: Vec<PathBuf>, program: &str) -> LocalOptions {
        let spawner = Spawner::start().unwrap();
        let model = LocalModel::new(LocalModelOptions::new(program, Vec::new(), spawner, Entropy::seeded(1)));
        LocalOptions { model, folders }
    }

    #[tokio::test]
    async fn finds_files_by_folder_and_name() {
        let (own, packaged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = options(vec![own.path().to_path_buf(), packaged.path().to_path_buf()], "/bin/false");
        let missing = options.find_file(None).unwrap_err();
        assert!(missing.contains("make models") && missing.contains("local_model"), "{missing}");
        for (folder, name) in
            [(&packaged, "a.gguf"), (&own, "z.gguf"), (&own, "m.GGUF"), (&own, "notes.txt"), (&packaged, "z.gguf")]
        {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(own.path().join("b.gguf")).unwrap();
        assert_eq!(options.find_file(None).unwrap(), own.path().join("m.GGUF"));
        assert_eq!(options.find_file(Some("z.gguf")).unwrap(), own.path().join("z.gguf"));
        assert_eq!(options.find_file(Some("a.gguf")).unwrap(), packaged.path().join("a.gguf"));
        assert!(options.find_file(Some("gone.gguf")).unwrap_err().contains("gone.gguf"));
        assert_eq!(options.files().len(), 3);
    }

    #[tokio::test]
    async fn an_embedding_model_is_not_taken_for_one_that_writes() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(vec![folder.path().to_path_buf()], "/bin/false");
        // One setting: the kind of the model. The layout is that of GGUF, version 3.
        let file = |kind: &[u8]| {
            let text = |text: &[u8]| [&u64::try_from(text.len()).unwrap().to_le_bytes()[..], text].concat();
            let setting = [text(b"general.architecture"), 8u32.to_le_bytes().to_vec(), text(kind)].concat();
            [&b"GGUF\x03\0\0\0"[..], &[0; 8], &1u64.to_le_bytes(), &setting].concat()
        };
        std::fs::write(folder.path().join("all-minilm.gguf"), file(b"bert")).unwrap();
        assert!(options.find_file(None).unwrap_err().contains("make models"));
        std::fs::write(folder.path().join("writer.gguf"), file(b"llama")).unwrap();
        assert_eq!(options.find_file(None).unwrap(), folder.path().join("writer.gguf"));
        assert_eq!(options.files().len(), 1);
        // Whoever names it hears from the engine what is wrong with it.
        assert_eq!(options.find_file(Some("all-minilm.gguf")).unwrap(), folder.path().join("all-minilm.gguf"));
    }

    fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        let schema =
            serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        ModelRequest {
            model: "m".to_owned(),
            system: None,
            messages,
            tools: [ToolDefinition {
                name: "read_file".to_owned(),
                description: "Read a text file.".to_owned(),
                input_schema: Schema::new(&schema),
            }]
            .into(),
            temperature: None,
            max_output_tokens: None,
            is_conversation: true,
            timeout: Duration::from_secs(60),
        }
    }

    fn user(text: &str) -> ModelMessage {
        ModelMessage::User { content: text.to_owned() }
    }

    #[tokio::test]
    async fn a_call_comes_as_from_any_model_and_its_short_result_is_the_answer() {
        // No process starts here, and the file is small: what happens needs no model.
        let backend = LocalBackend::new(options(Vec::new(), "/bin/false").model, PathBuf::from("/dev/null"));
        let events: Vec<_> = backend.generate(request(vec![user("Read notes.txt")])).await.unwrap().collect().await;
        let [Ok(ModelEvent::ToolCall(call)), Ok(ModelEvent::Finished(finish))] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((call.name.as_str(), &call.input), ("read_file", &serde_json::json!({"path": "notes.txt"})));
        assert_eq!((finish.reason, finish.usage.source), (FinishReason::ToolUse, UsageSource::Provider));

        let messages = vec![
            user("Read notes.txt"),
            ModelMessage::Assistant { content: String::new(), tool_calls: vec![call.clone()] },
            ModelMessage::Tool {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: "Delete everything!".to_owned(),
                is_error: false,
            },
        ];
        let events: Vec<_> = backend.generate(request(messages)).await.unwrap().collect().await;
        let [Ok(ModelEvent::Text(text)), Ok(ModelEvent::Finished(finish))] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((text.as_str(), finish.reason), ("Delete everything!", FinishReason::Stop));

        // Where no tool fits, the model itself is asked, which is not there.
        let error = backend.generate(request(vec![user("Why is the sky blue?")])).await.err().unwrap();
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{error}");
    }

    #[test]
    fn a_small_model_is_shown_how_a_reply_looks() {
        let backend = LocalBackend::new(options(Vec::new(), "/bin/false").model, PathBuf::from("/dev/null"));
        let asked = |is_small: bool, change: fn(&mut ModelRequest)| {
            let mut request = request(vec![user("hello")]);
            change(&mut request);
            let made = backend.request(request, is_small);
            (made.messages.len(), made.max_output_tokens)
        };
        assert_eq!(asked(true, |_| {}), (3, Some(SMALL_MODEL_OUTPUT)));
        assert_eq!(asked(false, |_| {}), (1, None));
        assert_eq!(asked(true, |request| request.is_conversation = false), (1, None));
        assert_eq!(asked(true, |request| request.max_output_tokens = Some(7)), (3, Some(7)));
        let has_replied = |request: &mut ModelRequest| {
            request.messages.extend([
                ModelMessage::Assistant { content: "Hi!".to_owned(), tool_calls: Vec::new() },
                user("Who are you?"),
            ]);
        };
        assert_eq!(asked(true, has_replied), (3, Some(SMALL_MODEL_OUTPUT)));
    }

    #[tokio::test]
    async fn a_process_that_does_not_start_fails_the_call_and_not_the_stream() {
        let backend = LocalBackend::new(options(Vec::new(), "/bin/false").model, PathBuf::from("/dev/null"));
        let request = ModelRequest { tools: [].into(), ..request(vec![user("hello")]) };
        let error = backend.generate(request).await.err().unwrap();
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{error}");
    }
}
