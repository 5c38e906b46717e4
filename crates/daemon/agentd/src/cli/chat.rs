//! `agentd chat`: chat with an agent in the terminal.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use agentd_base::{Secret, visible};
use axum::body::Body;
use bytes::Bytes;
use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Method;
use serde_json::{Value, json};

use super::client::{LocalClient, accept, error_from_body, request};
use super::device;
use super::error::CliError;
use super::events::{Event, EventReader};
use super::terminal::{Style, one_line, print_error, print_message, print_message_piece, print_piece};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd chat                                 interactive conversation\n  agentd chat --agent ada \"What is new?\"       one message and its reply\n  git diff | agentd chat -                    message from stdin\n  SVC_API_KEY=svc_… agentd chat --url https://agents.example.com\n\nCtrl-C stops a reply, Ctrl-D ends the conversation, /new starts a new one."
)]
pub(super) struct ChatArgs {
    /// Name or id of the agent [default: the default agent]
    #[arg(long)]
    agent: Option<String>,
    /// URL of a remote daemon; the API key is read from SVC_API_KEY
    #[arg(long)]
    url: Option<String>,
    /// Message to send; `-` reads it from stdin; without it, an interactive conversation starts
    message: Option<String>,
}

/// Connection to a daemon.
enum Daemon {
    Local(LocalClient),
    Remote { http: reqwest::Client, url: String, key: Secret },
}

struct Chat {
    daemon: Daemon,
    agent: Option<String>,
    conversation: Option<String>,
    style: Style,
    /// Setting `show_token_usage` of the interface.
    shows_tokens: bool,
}

/// Lines typed by the user; `None` if the input is a pipe.
type UserInput<'a> = Option<&'a mut tokio::sync::mpsc::Receiver<String>>;

pub(super) async fn run(config: &Config, arguments: ChatArgs) -> Result<ExitCode, CliError> {
    let daemon = Daemon::find(config, arguments.url).await?;
    let interface = daemon.interface().await?;
    let mut chat = Chat {
        daemon,
        agent: arguments.agent,
        conversation: None,
        style: Style::of_stderr(),
        shows_tokens: interface["show_token_usage"].as_bool().unwrap_or(true),
    };
    match arguments.message.as_deref() {
        Some("-") => {
            let text = std::io::read_to_string(std::io::stdin()).map_err(|source| CliError::Machine { source })?;
            chat.send_message(text.trim_end(), None).await?;
        }
        Some(message) => chat.send_message(message, None).await?,
        None => return chat.run_interactive().await,
    }
    Ok(ExitCode::SUCCESS)
}

impl Daemon {
    async fn find(config: &Config, url: Option<String>) -> Result<Self, CliError> {
        let Some(url) = url else {
            let running = LocalClient::running(config).await?;
            return running.map(Self::Local).ok_or_else(|| CliError::NotRunning { data_dir: config.data_dir.clone() });
        };
        device::check_address(&url)?;
        let key = std::env::var("SVC_API_KEY").ok().filter(|key| !key.is_empty()).ok_or_else(|| {
            CliError::Usage(
                "SVC_API_KEY is not set; create a key where the daemon runs: export SVC_API_KEY=$(agentd keys create --name chat)"
                    .to_owned(),
            )
        })?;
        let http = reqwest::Client::builder().build().map_err(CliError::broken)?;
        Ok(Self::Remote { http, url: url.trim_end_matches('/').to_owned(), key: Secret::new(key) })
    }

    async fn interface(&self) -> Result<Value, CliError> {
        let mut chunks = self.call(Method::GET, "/api/settings/interface", String::new()).await?;
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk?);
        }
        serde_json::from_slice(&body).map_err(CliError::broken)
    }

    /// Posts JSON and returns the stream of the response body.
    async fn post(&self, path: &str, body: &Value) -> Result<BoxStream<'static, Result<Bytes, CliError>>, CliError> {
        self.call(Method::POST, path, body.to_string()).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<BoxStream<'static, Result<Bytes, CliError>>, CliError> {
        match self {
            Self::Local(client) => {
                let answer = client.send(request(method, path, Body::from(body))?, None).await?;
                let stream = accept(answer).await?.into_body().into_data_stream();
                Ok(stream.map(|chunk| chunk.map_err(CliError::broken)).boxed())
            }
            Self::Remote { http, url, key } => {
                let sending = http
                    .request(method, format!("{url}{path}"))
                    .bearer_auth(key.expose())
                    .header("content-type", "application/json")
                    .body(body);
                let answer = sending.send().await.map_err(|error| {
                    let is_connect_error = error.is_connect();
                    let source = error.without_url();
                    if is_connect_error {
                        return CliError::Unreachable { url: url.clone(), source: source.into() };
                    }
                    CliError::broken(source)
                })?;
                let status = answer.status();
                if !status.is_success() {
                    let body = answer.bytes().await.map_err(CliError::broken)?;
                    return Err(error_from_body(status.as_u16(), &body));
                }
                Ok(answer.bytes_stream().map(|chunk| chunk.map_err(CliError::broken)).boxed())
            }
        }
    }
}

impl Chat {
    /// Runs a conversation. Without a terminal, the exit code is a failure if any reply failed.
    async fn run_interactive(&mut self) -> Result<ExitCode, CliError> {
        let mut outcome = ExitCode::SUCCESS;
        let is_interactive = std::io::stdin().is_terminal();
        if is_interactive {
            print_message(
                self.style.faint("Ctrl-C stops a reply, Ctrl-D ends the conversation, /new starts a new one."),
            );
        }
        let mut lines = read_lines();
        loop {
            if is_interactive {
                print_message_piece(self.style.green("> "));
            }
            let line = tokio::select! {
                line = lines.recv() => line,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.map_err(|source| CliError::Machine { source })?;
                    print_message(self.style.faint("\n(Ctrl-D ends the conversation)"));
                    continue;
                }
            };
            let Some(line) = line else { break };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                "/new" => {
                    self.conversation = None;
                    print_message(self.style.faint("Started a new conversation."));
                }
                "/help" => print_message(
                    "/new starts a new conversation, /quit ends this one. Everything else is sent to the agent.",
                ),
                text => {
                    // A failed reply does not end the conversation.
                    let user_input = is_interactive.then_some(&mut lines);
                    match self.send_message(text, user_input).await {
                        Ok(()) => {}
                        Err(error) if is_interactive => print_message(self.style.red(&format!("{error}"))),
                        Err(error) => {
                            print_error(&error);
                            outcome = ExitCode::FAILURE;
                        }
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Sends a message and shows the reply as it is streamed.
    async fn send_message(&mut self, text: &str, mut user_input: UserInput<'_>) -> Result<(), CliError> {
        let mut body = json!({"content": text});
        if let Some(conversation) = &self.conversation {
            body["conversation_id"] = conversation.as_str().into();
        }
        if let Some(agent) = &self.agent {
            body["agent_id"] = agent.as_str().into();
        }
        let mut chunks = self.daemon.post("/api/chat/messages/stream", &body).await?;
        let mut reader = EventReader::default();
        let mut session = None;
        let mut is_cancelled = false;
        loop {
            let chunk = tokio::select! {
                chunk = chunks.next() => chunk,
                interrupted = tokio::signal::ctrl_c(), if !is_cancelled => {
                    interrupted.map_err(|source| CliError::Machine { source })?;
                    is_cancelled = true;
                    self.cancel(session.as_deref()).await?;
                    continue;
                }
            };
            let Some(chunk) = chunk else {
                return Err(CliError::Broken { source: "the stream ended before the reply was complete".into() });
            };
            for event in reader.push(&chunk?) {
                if event.name == "start" {
                    session = self.handle_start(&event);
                } else if event.name == "approval_request" {
                    self.request_approval(&event, user_input.as_deref_mut()).await?;
                } else if self.show_event(&event, is_cancelled)? {
                    return Ok(());
                }
            }
        }
    }

    fn handle_start(&mut self, event: &Event) -> Option<String> {
        let data = data(event);
        let text = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
        self.conversation = text("conversation_id").or(self.conversation.take());
        text("session_id")
    }

    /// Shows an event. Returns whether it was the last one.
    fn show_event(&self, event: &Event, is_cancelled: bool) -> Result<bool, CliError> {
        let data = data(event);
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        match event.name.as_str() {
            "token" => print_piece(text("content")),
            "tool_use" => {
                let shown = format!("→ {} {}", one_line(text("tool")), data.get("input").unwrap_or(&Value::Null));
                print_message(self.style.faint(&visible::escape(&shown)));
            }
            "tool_result" => print_message(self.style.faint(&format!("← {}", one_line(text("tool"))))),
            "done" => {
                print_piece("\n");
                let total = data.get("total_tokens").and_then(Value::as_u64);
                if let Some(total) = total.filter(|_| self.shows_tokens) {
                    print_message(self.style.faint(&format!("{total} tokens")));
                }
                return Ok(true);
            }
            "error" if text("code") == "cancelled" && is_cancelled => {
                print_piece("\n");
                print_message(self.style.faint("(stopped)"));
                return Ok(true);
            }
            "error" => {
                print_piece("\n");
                return Err(CliError::Refused { status: 200, message: text("message").to_owned() });
            }
            _ => {}
        }
        Ok(false)
    }

    /// Asks the user to approve a tool call. Without interactive input, shows how to respond through the API.
    async fn request_approval(&self, event: &Event, user_input: UserInput<'_>) -> Result<(), CliError> {
        let data = data(event);
        let id = data["approval_id"].as_str().unwrap_or_default();
        let tool = one_line(data["tool"].as_str().unwrap_or_default());
        let shown = format!("{tool} wants to run with {}", data["input"]);
        print_message(self.style.yellow(&visible::escape(&shown)));
        if let Some(reason) = data["request_reason"].as_str() {
            print_message(self.style.yellow(&format!("Reason: {}", visible::escape(reason))));
        }
        let Some(lines) = user_input else {
            print_message(self.style.yellow(&format!(
                "Waiting for approval: POST /api/chat/approvals/{id} with {{\"decision\": \"approve\"}} or \"reject\""
            )));
            return Ok(());
        };
        print_message(
            self.style
                .yellow("Approve? Type y and Enter; any other text rejects it and is sent to the agent as the reason."),
        );
        let Some(answer) = lines.recv().await else { return Ok(()) };
        let answer = answer.trim();
        let body = match answer.to_lowercase().as_str() {
            "y" | "yes" => json!({"decision": "approve"}),
            "" | "n" | "no" => json!({"decision": "reject"}),
            _ => json!({"decision": "reject", "reason": answer}),
        };
        match self.daemon.post(&format!("/api/chat/approvals/{id}"), &body).await {
            Ok(_) => Ok(()),
            // Another client responded, or the request expired.
            Err(CliError::Refused { status: 404 | 409, message }) => {
                print_message(self.style.faint(&message));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn cancel(&self, session: Option<&str>) -> Result<(), CliError> {
        let Some(session) = session else { return Ok(()) };
        match self.daemon.post(&format!("/api/chat/sessions/{session}/cancel"), &json!({})).await {
            // The reply may have ended meanwhile.
            Ok(_) | Err(CliError::Refused { status: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn data(event: &Event) -> Value {
    serde_json::from_str(&event.data).unwrap_or_default()
}

/// Reads lines of stdin on a thread, which may block indefinitely.
fn read_lines() -> tokio::sync::mpsc::Receiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
