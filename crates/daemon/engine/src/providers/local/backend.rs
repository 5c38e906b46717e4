//! A local model file as a model backend.

use std::path::PathBuf;
use std::time::Duration;

use agentd_inference::{
    ChatMessage, ChatRole, FinishReason as LocalFinish, GenerateRequest, LocalError, LocalErrorCode, LocalEvent,
    LocalModel, LocalStream,
};
use agentd_llm::{
    Finish, FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, ModelRequest, ModelStream, Usage,
    UsageSource, separate_think_tags,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::{history, template};

/// Default temperature. Local models are small, and small models lose coherence at higher values.
const DEFAULT_TEMPERATURE: f64 = 0.0;

/// Maximum file size of a small model, with fewer than about a billion parameters.
pub(crate) const SMALL_MODEL_BYTES: u64 = 600 << 20;

/// Small models follow an example better than an instruction: with this one they answer in a sentence, without it they
/// ramble. It precedes only the first message: after a reply, the conversation itself is the example, and the model is
/// not asked about a question that the user never sent.
const EXAMPLE: [&str; 2] = ["What is the largest ocean?", "The largest ocean is the Pacific Ocean."];

/// Default output limit of a small model in tokens; longer output is not useful.
const SMALL_MODEL_OUTPUT: u32 = 500;

/// A local model file as a model backend.
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

    fn request(&self, request: ModelRequest, is_small: bool, supports_tools: bool) -> GenerateRequest {
        // The example would teach a model not to call tools.
        let may_call = supports_tools && !request.tools.is_empty();
        let uses_example = is_small && request.is_conversation && !may_call;
        let mut local_request = if supports_tools {
            template::generate_request(&request, &self.path)
        } else {
            let messages = history::conversation(request.messages);
            GenerateRequest::new(self.path.clone(), request.system.unwrap_or_default(), messages)
        };
        if uses_example && !local_request.messages.iter().any(|message| message.role == ChatRole::Assistant) {
            let [question, answer] = EXAMPLE;
            local_request.messages.splice(0..0, [ChatMessage::user(question), ChatMessage::assistant(answer)]);
        }
        #[allow(clippy::cast_possible_truncation, reason = "a temperature needs no more digits")]
        let temperature = request.temperature.unwrap_or(DEFAULT_TEMPERATURE) as f32;
        local_request.client = request.client;
        local_request.temperature = temperature;
        local_request.max_output_tokens = request.max_output_tokens.or(uses_example.then_some(SMALL_MODEL_OUTPUT));
        local_request
    }
}

impl ModelBackend for LocalBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let limit = request.timeout;
        let deadline = Instant::now() + limit;
        async move {
            let (supports_tools, is_small) = (self.supports_tools().await, self.is_small().await);
            let context = ReplyContext { deadline, limit, messages: request.messages.len() };
            self.reply(self.request(request, is_small, supports_tools), context).await
        }
        .boxed()
    }
}

/// Limits of a reply.
#[derive(Debug, Clone, Copy)]
struct ReplyContext {
    deadline: Instant,
    limit: Duration,
    /// Number of preceding messages.
    messages: usize,
}

impl LocalBackend {
    async fn supports_tools(&self) -> bool {
        let (model, path) = (self.model.clone(), self.path.clone());
        tokio::task::spawn_blocking(move || model.supports_tools(&path)).await.unwrap_or(false)
    }

    async fn is_small(&self) -> bool {
        tokio::fs::metadata(&self.path).await.is_ok_and(|file| file.len() < SMALL_MODEL_BYTES)
    }

    async fn reply(&self, local_request: GenerateRequest, context: ReplyContext) -> Result<ModelStream, ModelError> {
        let mut replies = self.model.generate(local_request);
        // An error before the first chunk fails the call, like with a vendor.
        let first = next(&mut replies, context).await.transpose()?;
        let rest = stream::unfold(Some(replies), move |replies| async move {
            let mut replies = replies?;
            let item = next(&mut replies, context).await?;
            let is_last = item.as_ref().map_or(true, |events| events.iter().any(is_end));
            Some((item, (!is_last).then_some(replies)))
        });
        let events = stream::iter(first.map(Ok)).chain(rest).flat_map(|item| {
            stream::iter(match item {
                Ok(events) => events.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        });
        Ok(separate_think_tags(events.boxed()))
    }
}

fn is_end(event: &ModelEvent) -> bool {
    matches!(event, ModelEvent::Finished(_))
}

async fn next(replies: &mut LocalStream, context: ReplyContext) -> Option<Result<Vec<ModelEvent>, ModelError>> {
    match timeout_at(context.deadline, replies.next()).await {
        Ok(item) => item.map(|item| item.map(|event| events(event, context)).map_err(failure)),
        Err(_) => Some(Err(too_slow(context.limit))),
    }
}

fn too_slow(limit: Duration) -> ModelError {
    let message =
        format!("the built-in model did not finish within {} seconds; raise request_timeout_seconds", limit.as_secs());
    ModelError::new(ModelErrorCode::Timeout, message)
}

fn events(event: LocalEvent, context: ReplyContext) -> Vec<ModelEvent> {
    let (reason, input_tokens, output_tokens, calls) = match event {
        LocalEvent::Text(text) => return vec![ModelEvent::Text(text)],
        LocalEvent::Finished { reason, input_tokens, output_tokens, calls } => {
            (reason, input_tokens, output_tokens, calls)
        }
    };
    let reason = match reason {
        LocalFinish::Stop if !calls.is_empty() => FinishReason::ToolUse,
        LocalFinish::Stop => FinishReason::Stop,
        LocalFinish::Length => FinishReason::Length,
        LocalFinish::Cancelled => FinishReason::Other,
    };
    let usage = Usage {
        input_tokens: input_tokens.into(),
        output_tokens: output_tokens.into(),
        source: UsageSource::Provider,
        ..Usage::default()
    };
    let calls = template::tool_calls(calls, context.messages).map(ModelEvent::ToolCall);
    calls.chain([ModelEvent::Finished(Finish { reason, usage })]).collect()
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
    use agentd_llm::{ModelMessage, Schema, ToolDefinition};

    use super::super::files::tests::options;
    use super::*;

    fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        let schema =
            serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        ModelRequest {
            client: "test".into(),
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

    #[test]
    fn small_model_receives_an_example() {
        let backend = LocalBackend::new(options(Vec::new(), "/bin/false").model, PathBuf::from("/dev/null"));
        let asked = |is_small: bool, change: fn(&mut ModelRequest)| {
            let mut request = request(vec![user("hello")]);
            change(&mut request);
            let made = backend.request(request, is_small, false);
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
        // With tools, the example would teach the model not to call them.
        let with_tools = backend.request(request(vec![user("hello")]), true, true);
        assert_eq!((with_tools.messages.len(), with_tools.max_output_tokens), (1, None));
        assert_eq!(with_tools.tools.len(), 1);
    }

    #[tokio::test]
    async fn failed_process_start_fails_the_call() {
        let backend = LocalBackend::new(options(Vec::new(), "/bin/false").model, PathBuf::from("/dev/null"));
        let request = ModelRequest { tools: [].into(), ..request(vec![user("hello")]) };
        let error = backend.generate(request).await.err().unwrap();
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{error}");
    }
}
