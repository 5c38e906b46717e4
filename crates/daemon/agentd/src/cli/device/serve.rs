//! Serving a daemon: connect, offer what is allowed, do what is asked, connect again.

use std::collections::HashMap;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::shell::{self, Shell};
use super::socket::{self, Address, NoConnection, Socket};
use super::state::Membership;
use crate::cli::error::CliError;
use crate::cli::terminal::{one_line, say};

/// The daemon pings every 20 seconds.
const SILENT_AFTER: Duration = Duration::from_secs(60);
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// Commands that run at once.
const MAX_CALLS: usize = 8;
const RETRY: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(60), jitter: 0.3 };

const REPLACED: u16 = 4001;
const REMOVED: u16 = 4003;

/// What the daemon sends; other frames are for devices that talk.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame {
    Hello {
        tool_prefix: String,
    },
    ToolCall {
        id: String,
        tool: String,
        input: Value,
    },
    ToolCancel {
        id: String,
    },
    Error {
        message: String,
    },
    #[serde(other)]
    Other,
}

/// How a connection ended.
enum End {
    /// Of itself; worth another try.
    Lost(String),
    Replaced,
    Removed,
}

/// Serves until a signal, or until the daemon wants this device no more.
pub(super) async fn serve(membership: Membership, shell: Option<Shell>) -> Result<(), CliError> {
    let machine = |source| CliError::Machine { source };
    let mut terminate = signal(SignalKind::terminate()).map_err(machine)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(machine)?;
    let address = socket::parse(&membership.url)?;
    let outcome = tokio::select! {
        outcome = keep_serving(&address, &membership, shell.as_ref()) => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    if outcome.is_ok() {
        say("bye");
    }
    outcome
}

async fn keep_serving(address: &Address, membership: &Membership, shell: Option<&Shell>) -> Result<(), CliError> {
    let entropy = Entropy::system();
    let removed =
        || CliError::Usage("the daemon removed this device; pair it again with `agentd device join`".to_owned());
    let mut failures = 0;
    loop {
        let reason = match address.connect(&membership.token).await {
            Err(NoConnection::Refused) => return Err(removed()),
            Err(NoConnection::Failed(reason)) => reason,
            Ok(socket) => {
                failures = 0;
                match Exchange::new(socket, membership, shell).run().await {
                    End::Lost(reason) => reason,
                    End::Removed => return Err(removed()),
                    End::Replaced => {
                        return Err(CliError::Usage(
                            "another process with the same token took the place of this one; stop one of them"
                                .to_owned(),
                        ));
                    }
                }
            }
        };
        failures += 1;
        let pause = RETRY.delay(failures, entropy.unit());
        say(format_args!("not connected: {reason}; trying again in {:.1} s", pause.as_secs_f64()));
        tokio::time::sleep(pause).await;
    }
}

/// One connection. Dropping it ends every command that it runs.
struct Exchange<'e> {
    socket: Socket,
    membership: &'e Membership,
    shell: Option<&'e Shell>,
    running: JoinSet<(String, Result<Value, String>)>,
    calls: HashMap<String, AbortHandle>,
}

impl<'e> Exchange<'e> {
    fn new(socket: Socket, membership: &'e Membership, shell: Option<&'e Shell>) -> Self {
        Self { socket, membership, shell, running: JoinSet::new(), calls: HashMap::new() }
    }

    async fn run(mut self) -> End {
        loop {
            let step = tokio::select! {
                Some(finished) = self.running.join_next() => match finished {
                    Ok((id, result)) => self.answer(&id, result).await,
                    // It was cancelled, and nobody waits for it.
                    Err(_) => Ok(()),
                },
                message = tokio::time::timeout(SILENT_AFTER, self.socket.next()) => match message {
                    Err(_) => Err(End::Lost("the daemon was silent for too long".to_owned())),
                    Ok(None) => Err(End::Lost("the connection ended".to_owned())),
                    Ok(Some(Err(error))) => Err(End::Lost(error.to_string())),
                    Ok(Some(Ok(message))) => self.take(message).await,
                },
            };
            if let Err(end) = step {
                if !self.calls.is_empty() {
                    say(format_args!("{} commands are stopped: nobody waits for them any more", self.calls.len()));
                }
                return end;
            }
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), End> {
        let text = match &message {
            Message::Text(text) => text.as_str(),
            Message::Close(frame) => return Err(ended(frame.as_ref())),
            _ => return Ok(()),
        };
        match serde_json::from_str(text) {
            Ok(Frame::Hello { tool_prefix }) => self.greet(&tool_prefix).await,
            Ok(Frame::ToolCall { id, tool, input }) => self.call(id, &tool, input).await,
            Ok(Frame::ToolCancel { id }) => {
                if let Some(call) = self.calls.remove(&id) {
                    call.abort();
                    say("← stopped: the daemon does not wait for it any more");
                }
                Ok(())
            }
            Ok(Frame::Error { message }) => {
                say(format_args!("the daemon says: {}", one_line(&message)));
                Ok(())
            }
            Ok(Frame::Other) => Ok(()),
            Err(_) => Err(End::Lost("the daemon sent something that is no frame".to_owned())),
        }
    }

    async fn greet(&mut self, tool_prefix: &str) -> Result<(), End> {
        let tools: Vec<Value> = self.shell.iter().map(|shell| shell.describe()).collect();
        let offered = match self.shell {
            Some(_) => format!("agents see {tool_prefix}{}", shell::NAME),
            None => "no tools are offered".to_owned(),
        };
        say(format_args!("connected to {} as {}; {offered}", self.membership.url, self.membership.name));
        self.send(json!({"type": "register_tools", "tools": tools})).await
    }

    async fn call(&mut self, id: String, tool: &str, input: Value) -> Result<(), End> {
        let refused = match self.shell {
            Some(_) if self.calls.len() >= MAX_CALLS => format!("{MAX_CALLS} commands are running already"),
            Some(shell) if tool == shell::NAME => {
                let (shell, call) = (shell.clone(), id.clone());
                let running = self.running.spawn(async move { (call, shell.run(input).await) });
                self.calls.insert(id, running);
                return Ok(());
            }
            _ => "this machine does not offer such a tool".to_owned(),
        };
        self.answer(&id, Err(refused)).await
    }

    async fn answer(&mut self, id: &str, result: Result<Value, String>) -> Result<(), End> {
        self.calls.remove(id);
        self.send(match result {
            Ok(output) => json!({"type": "tool_result", "id": id, "output": output}),
            Err(error) => json!({"type": "tool_result", "id": id, "error": error}),
        })
        .await
    }

    async fn send(&mut self, frame: Value) -> Result<(), End> {
        match tokio::time::timeout(WRITE_LIMIT, self.socket.send(Message::text(frame.to_string()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(End::Lost(error.to_string())),
            Err(_) => Err(End::Lost("the daemon does not read".to_owned())),
        }
    }
}

fn ended(frame: Option<&CloseFrame>) -> End {
    match frame {
        Some(CloseFrame { code: CloseCode::Library(REPLACED), .. }) => End::Replaced,
        Some(CloseFrame { code: CloseCode::Library(REMOVED), .. }) => End::Removed,
        Some(frame) if !frame.reason.is_empty() => End::Lost(frame.reason.as_str().to_owned()),
        _ => End::Lost("the daemon closed the connection".to_owned()),
    }
}
