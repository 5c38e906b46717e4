//! Device connection: registers the allowed tools, runs tool calls, and reconnects.

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
use super::socket::{self, Address, ConnectError, Socket};
use super::state::Pairing;
use crate::cli::error::CliError;
use crate::cli::terminal::{one_line, print_message};

/// Time without messages after which the connection is considered lost. The daemon pings every 20 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of concurrent commands.
const MAX_CALLS: usize = 8;
const RETRY: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(60), jitter: 0.3 };

/// Close code: another connection with the same token replaced this one.
const REPLACED: u16 = 4001;
/// Close code: the device was removed.
const REMOVED: u16 = 4003;

/// Frame from the daemon. Other frames are for devices with a chat interface.
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

/// Reason for the end of a connection.
enum End {
    /// The connection was lost and is retried.
    Lost(String),
    Replaced,
    Removed,
}

/// Serves until a signal arrives or the daemon removes this device.
pub(super) async fn serve(pairing: Pairing, shell: Option<Shell>) -> Result<(), CliError> {
    let machine = |source| CliError::Machine { source };
    let mut terminate = signal(SignalKind::terminate()).map_err(machine)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(machine)?;
    let address = socket::parse(&pairing.url)?;
    let outcome = tokio::select! {
        outcome = serve_with_reconnect(&address, &pairing, shell.as_ref()) => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    if outcome.is_ok() {
        print_message("bye");
    }
    outcome
}

async fn serve_with_reconnect(address: &Address, pairing: &Pairing, shell: Option<&Shell>) -> Result<(), CliError> {
    let entropy = Entropy::system();
    let removed =
        || CliError::Usage("the daemon removed this device; pair it again with `agentd device join`".to_owned());
    let mut failures = 0;
    loop {
        let reason = match address.connect(&pairing.token).await {
            Err(ConnectError::Refused) => return Err(removed()),
            Err(ConnectError::Failed(reason)) => reason,
            Ok(socket) => {
                failures = 0;
                match Connection::new(socket, pairing, shell).run().await {
                    End::Lost(reason) => reason,
                    End::Removed => return Err(removed()),
                    End::Replaced => {
                        return Err(CliError::Usage(
                            "another process with the same token replaced this connection; stop one of them".to_owned(),
                        ));
                    }
                }
            }
        };
        failures += 1;
        let delay = RETRY.delay(failures, entropy.unit());
        print_message(format_args!("not connected: {reason}; retrying in {:.1} s", delay.as_secs_f64()));
        tokio::time::sleep(delay).await;
    }
}

/// Connection to the daemon. Dropping it stops all running commands.
struct Connection<'e> {
    socket: Socket,
    pairing: &'e Pairing,
    shell: Option<&'e Shell>,
    running: JoinSet<(String, Result<Value, String>)>,
    calls: HashMap<String, AbortHandle>,
}

impl<'e> Connection<'e> {
    fn new(socket: Socket, pairing: &'e Pairing, shell: Option<&'e Shell>) -> Self {
        Self { socket, pairing, shell, running: JoinSet::new(), calls: HashMap::new() }
    }

    async fn run(mut self) -> End {
        loop {
            let step = tokio::select! {
                Some(finished) = self.running.join_next() => match finished {
                    Ok((id, result)) => self.send_result(&id, result).await,
                    // Cancelled by the daemon, which does not wait for a result.
                    Err(_) => Ok(()),
                },
                message = tokio::time::timeout(READ_TIMEOUT, self.socket.next()) => match message {
                    Err(_) => Err(End::Lost("no message from the daemon for too long".to_owned())),
                    Ok(None) => Err(End::Lost("the connection ended".to_owned())),
                    Ok(Some(Err(error))) => Err(End::Lost(error.to_string())),
                    Ok(Some(Ok(message))) => self.handle_message(message).await,
                },
            };
            if let Err(end) = step {
                if !self.calls.is_empty() {
                    print_message(format_args!("stopped {} commands because the connection ended", self.calls.len()));
                }
                return end;
            }
        }
    }

    async fn handle_message(&mut self, message: Message) -> Result<(), End> {
        let text = match &message {
            Message::Text(text) => text.as_str(),
            Message::Close(frame) => return Err(end_of_close_frame(frame.as_ref())),
            _ => return Ok(()),
        };
        match serde_json::from_str(text) {
            Ok(Frame::Hello { tool_prefix }) => self.register_tools(&tool_prefix).await,
            Ok(Frame::ToolCall { id, tool, input }) => self.start_call(id, &tool, input).await,
            Ok(Frame::ToolCancel { id }) => {
                if let Some(call) = self.calls.remove(&id) {
                    call.abort();
                    print_message("← stopped: cancelled by the daemon");
                }
                Ok(())
            }
            Ok(Frame::Error { message }) => {
                print_message(format_args!("error from the daemon: {}", one_line(&message)));
                Ok(())
            }
            Ok(Frame::Other) => Ok(()),
            Err(_) => Err(End::Lost("the daemon sent an invalid frame".to_owned())),
        }
    }

    async fn register_tools(&mut self, tool_prefix: &str) -> Result<(), End> {
        let tools: Vec<Value> = self.shell.iter().map(|shell| shell.describe()).collect();
        let offered = match self.shell {
            Some(_) => format!("agents see {tool_prefix}{}", shell::NAME),
            None => "no tools offered".to_owned(),
        };
        print_message(format_args!("connected to {} as {}; {offered}", self.pairing.url, self.pairing.name));
        self.send(json!({"type": "register_tools", "tools": tools})).await
    }

    async fn start_call(&mut self, id: String, tool: &str, input: Value) -> Result<(), End> {
        let problem = match self.shell {
            Some(_) if self.calls.len() >= MAX_CALLS => format!("{MAX_CALLS} commands are running already"),
            Some(shell) if tool == shell::NAME => {
                let (shell, call) = (shell.clone(), id.clone());
                let running = self.running.spawn(async move { (call, shell.run(input).await) });
                self.calls.insert(id, running);
                return Ok(());
            }
            _ => "this device does not offer the tool".to_owned(),
        };
        self.send_result(&id, Err(problem)).await
    }

    async fn send_result(&mut self, id: &str, result: Result<Value, String>) -> Result<(), End> {
        self.calls.remove(id);
        self.send(match result {
            Ok(output) => json!({"type": "tool_result", "id": id, "output": output}),
            Err(error) => json!({"type": "tool_result", "id": id, "error": error}),
        })
        .await
    }

    async fn send(&mut self, frame: Value) -> Result<(), End> {
        match tokio::time::timeout(WRITE_TIMEOUT, self.socket.send(Message::text(frame.to_string()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(End::Lost(error.to_string())),
            Err(_) => Err(End::Lost("sending to the daemon timed out".to_owned())),
        }
    }
}

fn end_of_close_frame(frame: Option<&CloseFrame>) -> End {
    match frame {
        Some(CloseFrame { code: CloseCode::Library(REPLACED), .. }) => End::Replaced,
        Some(CloseFrame { code: CloseCode::Library(REMOVED), .. }) => End::Removed,
        Some(frame) if !frame.reason.is_empty() => End::Lost(frame.reason.as_str().to_owned()),
        _ => End::Lost("the daemon closed the connection".to_owned()),
    }
}
