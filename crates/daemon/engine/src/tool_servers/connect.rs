//! Opening and ending a session: starting the program in its box, or reaching out to the server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Redactor, Secret};
use agentd_core::runtime::DataDir;
use agentd_mcp::{CloseReason, ConnectError, ConnectOptions, Connection, ListLimits, McpError, StdioStreams};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use agentd_sandbox::{Ended, RunRequest, SandboxedChild, Tier};
use url::Url;

use super::change::ToolServerId;
use super::error::Failure;
use super::listing::Listing;
use super::load::{Spec, Way};
use super::reach::StdioReach;
use crate::code_runner::CodeRunner;

/// Vendors take no more tools than this, so no server needs to offer more.
const MAX_TOOLS: usize = 128;
/// A program that is told to end, by the end of its input, has this long.
const END_BY_ITSELF: Duration = Duration::from_millis(500);
/// The sandbox clears up within less.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A working session, and the program behind it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) revision: i64,
    program: Option<SandboxedChild>,
    /// Of what the server was given: for what it says of itself and of failures.
    redactor: Redactor,
    /// The same for what models work with, where a setting that is no secret may well be meant.
    pub(super) results: Redactor,
}

impl Session {
    fn new(connection: Connection, spec: &Spec, program: Option<SandboxedChild>) -> Self {
        let redactor = spec.redactor();
        Self { connection, revision: spec.revision, program, results: spec.redactor_of_results(), redactor }
    }

    /// The end of what the program wrote beside the protocol, without what is secret.
    pub(super) fn diagnosis(&self) -> String {
        self.redactor.hide_piece(self.connection.diagnosis())
    }

    /// Of the box around the program.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.program.as_ref().map(SandboxedChild::pid)
    }

    pub(super) fn tier(&self) -> Option<Tier> {
        self.program.as_ref().map(SandboxedChild::tier)
    }

    /// What it offers now.
    pub(super) async fn list(&self) -> Result<Listing, Failure> {
        let list = self.connection.list_tools().await.map_err(|error| self.failure(&error))?;
        Ok(Listing::new(self.connection.info(), list).redacted(&self.results))
    }

    pub(super) fn failure(&self, error: &McpError) -> Failure {
        Failure { diagnosis: self.diagnosis(), ..Failure::of_server(error, &self.redactor) }
    }

    /// Why the session is over, after it is.
    pub(super) async fn loss(&self, reason: CloseReason) -> Failure {
        let mut failure = self.failure(&McpError::Closed { reason });
        if let Some(ended) = self.end_of_program(END_BY_ITSELF).await {
            failure.message = format!("the tool server's program {ended}");
            failure.code = "tool_server_ended";
        }
        failure
    }

    async fn end_of_program(&self, limit: Duration) -> Option<Ended> {
        tokio::time::timeout(limit, self.program.as_ref()?.wait()).await.ok()
    }

    /// Ends the session in order, then everything of the program that is left.
    pub(super) async fn end(&self) {
        self.connection.close().await;
        if let Some(program) = &self.program
            && self.end_of_program(END_BY_ITSELF).await.is_none()
        {
            program.kill();
            if tokio::time::timeout(END_LIMIT, program.wait()).await.is_err() {
                tracing::warn!(process = program.pid(), "a tool server's program does not end");
            }
        }
    }
}

/// Opens sessions.
pub(super) struct Opener {
    runner: CodeRunner,
    client: GuardedClient,
    data_dir: Arc<DataDir>,
}

impl Opener {
    pub(super) fn new(runner: CodeRunner, policy: PolicyHandle, data_dir: Arc<DataDir>) -> Self {
        Self { runner, client: GuardedClient::new(policy, Trust::Owner), data_dir }
    }

    /// Whether this path is the daemon's own data, a part of it, or holds it.
    pub(super) fn is_own_data(&self, path: &Path) -> bool {
        self.runner.is_own_data(path)
    }

    /// The folder that is a server's home.
    pub(super) fn home(&self, id: &ToolServerId) -> PathBuf {
        self.data_dir.root().join("tool-servers").join(id.as_str())
    }

    /// Opens a session. Dropping the future leaves nothing behind.
    pub(super) async fn open(&self, spec: &Spec) -> Result<Session, Failure> {
        let options = ConnectOptions {
            handshake_limit: spec.handshake_limit,
            list_limits: ListLimits { max_tools: MAX_TOOLS, ..ListLimits::default() },
            ..ConnectOptions::default()
        };
        match &spec.way {
            Way::Http { url, headers } => {
                let url = Url::parse(url).map_err(|_| Failure::ours("invalid_request", "the address is not valid"))?;
                let opened = Connection::over_http(url, headers, self.client.clone(), options).await;
                let connection = opened.map_err(|error| Failure::of_server(error.error(), &spec.redactor()))?;
                Ok(Session::new(connection, spec, None))
            }
            Way::Stdio { reach, env } => {
                let mut program = self.start(spec, reach, env).await?;
                let (Some(stdout), Some(stdin)) = (program.stdout.take(), program.stdin.take()) else {
                    return Err(Failure::ours("sandbox_failed", "the program has no standard streams"));
                };
                let streams = StdioStreams { stdout, stdin, stderr: program.stderr.take() };
                match Connection::over_stdio(streams, options).await {
                    Ok(connection) => Ok(Session::new(connection, spec, Some(program))),
                    Err(error) => Err(why_not(&program, reach, &error, spec).await),
                }
            }
        }
    }

    async fn start(
        &self,
        spec: &Spec,
        reach: &StdioReach,
        env: &[(String, Secret)],
    ) -> Result<SandboxedChild, Failure> {
        let sandbox = self.runner.sandbox().map_err(|reason| Failure::ours("sandbox_unavailable", reason))?;
        // Also what has become that since it was registered, by a link or a folder that was made.
        if let Some((_, path)) = reach.paths().find(|(_, path)| self.is_own_data(Path::new(path))) {
            let message = format!("`{path}` cannot be opened to the sandbox: it belongs to the daemon's own data");
            return Err(Failure::ours("sandbox_path_refused", message));
        }
        let home = self.home(&spec.id);
        let (data_dir, folder) = (Arc::clone(&self.data_dir), home.clone());
        let made = tokio::task::spawn_blocking(move || data_dir.make_folder(&folder)).await;
        if let Some(error) = made.map_or_else(|error| Some(error.to_string()), |made| made.err().map(|e| e.to_string()))
        {
            return Err(Failure::ours(
                "tool_server_home",
                format!("the folder {} cannot be made: {error}", home.display()),
            ));
        }
        let mut request = RunRequest::new(&reach.command, reach.args.iter().map(OsString::from));
        request.environment = vec![("HOME".into(), home.clone().into())];
        request.environment.extend(env.iter().map(|(name, value)| (name.into(), value.expose().into())));
        request.working_directory = Some(home.clone());
        request.readable_paths = reach.readable_paths.iter().map(PathBuf::from).collect();
        request.writable_paths = reach.writable_paths.iter().map(PathBuf::from).collect();
        request.writable_paths.push(home);
        if reach.network {
            let socket = self.runner.granted_proxy_socket();
            request.proxy_socket = Some(socket.map_err(|reason| Failure::ours("network_unavailable", reason))?);
            request.network_allowed = true;
        }
        sandbox.spawn(request).await.map_err(|error| Failure::of_sandbox(&error))
    }
}

/// Ends the program of a failed handshake, and says how it ended where that tells more.
async fn why_not(program: &SandboxedChild, reach: &StdioReach, error: &ConnectError, spec: &Spec) -> Failure {
    let redactor = spec.redactor();
    let mut failure = Failure::of_server(error.error(), &redactor);
    failure.diagnosis = redactor.hide_piece(error.diagnosis());
    let has_gone = matches!(error.error(), McpError::EndedInHandshake { .. });
    let ended = tokio::time::timeout(END_BY_ITSELF, program.wait()).await;
    program.kill();
    let _ = tokio::time::timeout(END_LIMIT, program.wait()).await;
    match ended {
        Ok(Ended::NotStarted { reason }) => {
            failure.code = "tool_server_not_started";
            failure.message = format!(
                "the program `{}` could not be started: {reason}; the sandbox shows it the system's folders and those in \
                 `readable_paths` and `writable_paths`",
                reach.command
            );
        }
        Ok(ended) if has_gone => {
            failure.message =
                format!("the tool server's program {ended} before it was connected; its error output says more");
        }
        _ => {}
    }
    if has_gone && !reach.network && spec.handshake_limit > Duration::from_secs(60) {
        failure.message.push_str(&format!(
            "; `{}` downloads what it runs, and this server may not reach the network (`network`)",
            reach.command
        ));
    }
    failure
}
