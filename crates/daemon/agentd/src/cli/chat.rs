//! `agentd chat`: talk to an agent in the terminal.

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

use super::client::{LocalClient, accept, refusal, request};
use super::device;
use super::error::CliError;
use super::events::{Event, EventReader};
use super::terminal::{Style, one_line, print_piece, say, say_error, say_piece};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd chat                                 an endless conversation\n  agentd chat --agent ada \"What is new?\"       one answer, then the end\n  git diff | agentd chat -                    the message comes from stdin\n  SVC_API_KEY=svc_… agentd chat --url https://agents.example.com\n\nCtrl-C stops a reply, Ctrl-D ends the conversation, /new begins another."
)]
pub(super) struct ChatArgs {
    /// Name or id of the agent; without it the default one
    #[arg(long)]
    agent: Option<String>,
    /// A daemon elsewhere; its key is taken from SVC_API_KEY
    #[arg(long)]
    url: Option<String>,
    /// What to say; `-` reads it from stdin; without it, a conversation
    message: Option<String>,
}

/// Where the daemon is.
enum Daemon {
    Here(LocalClient),
    Elsewhere { http: reqwest::Client, url: String, key: Secret },
}

struct Chat {
    daemon: Daemon,
    agent: Option<String>,
    conversation: Option<String>,
    style: Style,
    /// `show_token_usage` of the interface settings.
    shows_tokens: bool,
}

/// What the person at the terminal types; nobody where the input is a pipe.
type Person<'a> = Option<&'a mut tokio::sync::mpsc::Receiver<String>>;

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
            chat.say(text.trim_end(), None).await?;
        }
        Some(message) => chat.say(message, None).await?,
        None => return chat.converse().await,
    }
    Ok(ExitCode::SUCCESS)
}

impl Daemon {
    async fn find(config: &Config, url: Option<String>) -> Result<Self, CliError> {
        let Some(url) = url else {
            let running = LocalClient::running(config).await?;
            return running.map(Self::Here).ok_or_else(|| CliError::NotRunning { data_dir: config.data_dir.clone() });
        };
        device::check_address(&url)?;
        let key = std::env::var("SVC_API_KEY").ok().filter(|key| !key.is_empty()).ok_or_else(|| {
            CliError::Usage(
                "SVC_API_KEY is not set; make a key where the daemon runs: export SVC_API_KEY=$(agentd keys create --name chat)"
                    .to_owned(),
            )
        })?;
        let http = reqwest::Client::builder().build().map_err(CliError::broken)?;
        Ok(Self::Elsewhere { http, url: url.trim_end_matches('/').to_owned(), key: Secret::new(key) })
    }

    async fn interface(&self) -> Result<Value, CliError> {
        let mut chunks = self.call(Method::GET, "/api/settings/interface", String::new()).await?;
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk?);
        }
        serde_json::from_slice(&body).map_err(CliError::broken)
    }

    /// Posts JSON; the body of the answer as it comes.
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
            Self::Here(client) => {
                let answer = client.send(request(method, path, Body::from(body))?, None).await?;
                let stream = accept(answer).await?.into_body().into_data_stream();
                Ok(stream.map(|chunk| chunk.map_err(CliError::broken)).boxed())
            }
            Self::Elsewhere { http, url, key } => {
                let sending = http
                    .request(method, format!("{url}{path}"))
                    .bearer_auth(key.expose())
                    .header("content-type", "application/json")
                    .body(body);
                let answer = sending.send().await.map_err(|error| {
                    let is_nobody = error.is_connect();
                    let source = error.without_url();
                    if is_nobody {
                        return CliError::Unreachable { url: url.clone(), source: source.into() };
                    }
                    CliError::broken(source)
                })?;
                let status = answer.status();
                if !status.is_success() {
                    let body = answer.bytes().await.map_err(CliError::broken)?;
                    return Err(refusal(status.as_u16(), &body));
                }
                Ok(answer.bytes_stream().map(|chunk| chunk.map_err(CliError::broken)).boxed())
            }
        }
    }
}

impl Chat {
    /// Fails at its end when nobody is there who saw that something failed.
    async fn converse(&mut self) -> Result<ExitCode, CliError> {
        let mut outcome = ExitCode::SUCCESS;
        let is_person = std::io::stdin().is_terminal();
        if is_person {
            say(self.style.faint("Ctrl-C stops a reply, Ctrl-D ends; /new begins another conversation."));
        }
        let mut lines = read_lines();
        loop {
            if is_person {
                say_piece(self.style.green("> "));
            }
            let line = tokio::select! {
                line = lines.recv() => line,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.map_err(|source| CliError::Machine { source })?;
                    say(self.style.faint("\n(Ctrl-D ends the conversation)"));
                    continue;
                }
            };
            let Some(line) = line else { break };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                "/new" => {
                    self.conversation = None;
                    say(self.style.faint("A new conversation."));
                }
                "/help" => say("/new begins another conversation, /quit ends. Everything else is said to the agent."),
                text => {
                    // One answer that failed does not end the conversation.
                    let person = is_person.then_some(&mut lines);
                    match self.say(text, person).await {
                        Ok(()) => {}
                        Err(error) if is_person => say(self.style.red(&format!("{error}"))),
                        Err(error) => {
                            say_error(&error);
                            outcome = ExitCode::FAILURE;
                        }
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Says something and shows the reply as it comes.
    async fn say(&mut self, text: &str, mut person: Person<'_>) -> Result<(), CliError> {
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
                return Err(CliError::Broken { source: "the reply has no end".into() });
            };
            for event in reader.push(&chunk?) {
                if event.name == "start" {
                    session = self.begin(&event);
                } else if event.name == "approval_request" {
                    self.ask(&event, person.as_deref_mut()).await?;
                } else if self.show(&event, is_cancelled)? {
                    return Ok(());
                }
            }
        }
    }

    fn begin(&mut self, event: &Event) -> Option<String> {
        let data = data(event);
        let text = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
        self.conversation = text("conversation_id").or(self.conversation.take());
        text("session_id")
    }

    /// Shows an event; whether it was the last one.
    fn show(&self, event: &Event, is_cancelled: bool) -> Result<bool, CliError> {
        let data = data(event);
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        match event.name.as_str() {
            "token" => print_piece(text("content")),
            "tool_use" => {
                let shown = format!("→ {} {}", one_line(text("tool")), data.get("input").unwrap_or(&Value::Null));
                say(self.style.faint(&visible::escape(&shown)));
            }
            "tool_result" => say(self.style.faint(&format!("← {}", one_line(text("tool"))))),
            "done" => {
                print_piece("\n");
                let total = data.get("total_tokens").and_then(Value::as_u64);
                if let Some(total) = total.filter(|_| self.shows_tokens) {
                    say(self.style.faint(&format!("{total} tokens")));
                }
                return Ok(true);
            }
            "error" if text("code") == "cancelled" && is_cancelled => {
                print_piece("\n");
                say(self.style.faint("(stopped)"));
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

    /// Asks the person whether a tool may run; without one, says how to answer.
    async fn ask(&self, event: &Event, person: Person<'_>) -> Result<(), CliError> {
        let data = data(event);
        let id = data["approval_id"].as_str().unwrap_or_default();
        let tool = one_line(data["tool"].as_str().unwrap_or_default());
        let shown = format!("{tool} wants to run with {}", data["input"]);
        say(self.style.yellow(&visible::escape(&shown)));
        if let Some(reason) = data["request_reason"].as_str() {
            say(self.style.yellow(&format!("Reason: {}", visible::escape(reason))));
        }
        let Some(lines) = person else {
            say(self.style.yellow(&format!(
                "It waits for your answer: POST /api/chat/approvals/{id} with {{\"decision\": \"approve\"}} or \"reject\""
            )));
            return Ok(());
        };
        say(self.style.yellow("May it? Type y and Enter; anything else is a no, and is told to the agent."));
        let Some(answer) = lines.recv().await else { return Ok(()) };
        let answer = answer.trim();
        let body = match answer.to_lowercase().as_str() {
            "y" | "yes" => json!({"decision": "approve"}),
            "" | "n" | "no" => json!({"decision": "reject"}),
            _ => json!({"decision": "reject", "reason": answer}),
        };
        match self.daemon.post(&format!("/api/chat/approvals/{id}"), &body).await {
            Ok(_) => Ok(()),
            // Somebody else answered, or nobody in time.
            Err(CliError::Refused { status: 404 | 409, message }) => {
                say(self.style.faint(&message));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn cancel(&self, session: Option<&str>) -> Result<(), CliError> {
        let Some(session) = session else { return Ok(()) };
        match self.daemon.post(&format!("/api/chat/sessions/{session}/cancel"), &json!({})).await {
            // A reply that ended meanwhile needs no cancelling.
            Ok(_) | Err(CliError::Refused { status: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn data(event: &Event) -> Value {
    serde_json::from_str(&event.data).unwrap_or_default()
}

/// Lines of stdin, read by a thread that may wait for ever.
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
