//! Opens and closes sessions: starts the program in its sandbox, or connects to the web service.

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
use super::load::{Endpoint, Spec};
use super::transport::StdioTransport;
use crate::code_runner::CodeRunner;

/// Maximum number of tools that model vendors accept; a server does not need to offer more.
const MAX_TOOLS: usize = 128;
/// Time for a program to exit after the end of its input.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for the sandbox to clean up after a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// An open session and its program.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) revision: i64,
    program: Option<SandboxedChild>,
    /// Redacts the server's secrets from its identity and error messages.
    redactor: Redactor,
    /// Redacts the server's secrets from results; values that are not credentials stay, because results may need them.
    pub(super) results: Redactor,
}

impl Session {
    fn new(connection: Connection, spec: &Spec, program: Option<SandboxedChild>) -> Self {
        let redactor = spec.redactor();
        Self { connection, revision: spec.revision, program, results: spec.result_redactor(), redactor }
    }

    /// Returns the end of the program's error output, redacted.
    pub(super) fn diagnosis(&self) -> String {
        self.redactor.redact_excerpt(self.connection.diagnosis())
    }

    /// Process id of the sandbox around the program.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.program.as_ref().map(SandboxedChild::pid)
    }

    pub(super) fn tier(&self) -> Option<Tier> {
        self.program.as_ref().map(SandboxedChild::tier)
    }

    /// Lists the tools that the server offers.
    pub(super) async fn list(&self) -> Result<Listing, Failure> {
        let list = self.connection.list_tools().await.map_err(|error| self.failure(&error))?;
        Ok(Listing::new(self.connection.info(), list).redacted(&self.results))
    }

    pub(super) fn failure(&self, error: &McpError) -> Failure {
        Failure { diagnosis: self.diagnosis(), ..Failure::of_server(error, &self.redactor) }
    }

    /// Returns the reason why a closed session ended.
    pub(super) async fn loss(&self, reason: CloseReason) -> Failure {
        let mut failure = self.failure(&McpError::Closed { reason });
        if let Some(ended) = self.wait_for_exit(EXIT_TIMEOUT).await {
            failure.message = format!("the tool server's program {ended}");
            failure.code = "tool_server_ended";
        }
        failure
    }

    async fn wait_for_exit(&self, limit: Duration) -> Option<Ended> {
        tokio::time::timeout(limit, self.program.as_ref()?.wait()).await.ok()
    }

    /// Closes the session gracefully, then kills the program if it is still running.
    pub(super) async fn end(&self) {
        self.connection.close().await;
        if let Some(program) = &self.program
            && self.wait_for_exit(EXIT_TIMEOUT).await.is_none()
        {
            program.kill();
            if tokio::time::timeout(KILL_TIMEOUT, program.wait()).await.is_err() {
                tracing::warn!(process = program.pid(), "tool server program did not exit after a kill");
            }
        }
    }
}

/// Opens sessions with tool servers.
pub(super) struct Opener {
    runner: CodeRunner,
    client: GuardedClient,
    data_dir: Arc<DataDir>,
}

impl Opener {
    pub(super) fn new(runner: CodeRunner, policy: PolicyHandle, data_dir: Arc<DataDir>) -> Self {
        Self { runner, client: GuardedClient::new(policy, Trust::Owner), data_dir }
    }

    /// Whether this path is in the daemon's own data, or contains it.
    pub(super) fn is_own_data(&self, path: &Path) -> bool {
        self.runner.is_own_data(path)
    }

    /// Returns the home folder of a server.
    pub(super) fn home(&self, id: &ToolServerId) -> PathBuf {
        self.data_dir.root().join("tool-servers").join(id.as_str())
    }

    /// Opens a session. Cancel safe: dropping the future leaves nothing running.
    pub(super) async fn open(&self, spec: &Spec) -> Result<Session, Failure> {
        let options = ConnectOptions {
            handshake_limit: spec.handshake_limit,
            list_limits: ListLimits { max_tools: MAX_TOOLS, ..ListLimits::default() },
            ..ConnectOptions::default()
        };
        match &spec.endpoint {
            Endpoint::Http { url, headers } => {
                let url = Url::parse(url).map_err(|_| Failure::local("invalid_request", "the URL is not valid"))?;
                let opened = Connection::over_http(url, headers, self.client.clone(), options).await;
                let connection = opened.map_err(|error| Failure::of_server(error.error(), &spec.redactor()))?;
                Ok(Session::new(connection, spec, None))
            }
            Endpoint::Stdio { transport, env } => {
                let mut program = self.start(spec, transport, env).await?;
                let (Some(stdout), Some(stdin)) = (program.stdout.take(), program.stdin.take()) else {
                    return Err(Failure::local("sandbox_failed", "the program has no standard streams"));
                };
                let streams = StdioStreams { stdout, stdin, stderr: program.stderr.take() };
                match Connection::over_stdio(streams, options).await {
                    Ok(connection) => Ok(Session::new(connection, spec, Some(program))),
                    Err(error) => Err(handshake_failure(&program, transport, &error, spec).await),
                }
            }
        }
    }

    async fn start(
        &self,
        spec: &Spec,
        transport: &StdioTransport,
        env: &[(String, Secret)],
    ) -> Result<SandboxedChild, Failure> {
        let sandbox = self.runner.sandbox().map_err(|reason| Failure::local("sandbox_unavailable", reason))?;
        // Checked again, because a link or a new folder may have changed it since the registration.
        if let Some((_, path)) = transport.paths().find(|(_, path)| self.is_own_data(Path::new(path))) {
            let message = format!("`{path}` cannot be shared with the sandbox: it belongs to the daemon's own data");
            return Err(Failure::local("sandbox_path_refused", message));
        }
        let home = self.home(&spec.id);
        let (data_dir, folder) = (Arc::clone(&self.data_dir), home.clone());
        let created = tokio::task::spawn_blocking(move || data_dir.make_folder(&folder)).await;
        if let Some(error) =
            created.map_or_else(|error| Some(error.to_string()), |created| created.err().map(|e| e.to_string()))
        {
            return Err(Failure::local(
                "tool_server_home",
                format!("failed to create the folder {}: {error}", home.display()),
            ));
        }
        let mut request = RunRequest::new(&transport.command, transport.args.iter().map(OsString::from));
        request.environment = vec![("HOME".into(), home.clone().into())];
        request.environment.extend(env.iter().map(|(name, value)| (name.into(), value.expose().into())));
        request.working_directory = Some(home.clone());
        request.readable_paths = transport.readable_paths.iter().map(PathBuf::from).collect();
        request.writable_paths = transport.writable_paths.iter().map(PathBuf::from).collect();
        request.writable_paths.push(home);
        if transport.network {
            let socket = self.runner.granted_proxy_socket();
            request.proxy_socket = Some(socket.map_err(|reason| Failure::local("network_unavailable", reason))?);
            request.network_allowed = true;
        }
        sandbox.spawn(request).await.map_err(|error| Failure::of_sandbox(&error))
    }
}

/// Kills the program of a failed handshake; describes how it ended if that is informative.
async fn handshake_failure(
    program: &SandboxedChild,
    transport: &StdioTransport,
    error: &ConnectError,
    spec: &Spec,
) -> Failure {
    let redactor = spec.redactor();
    let mut failure = Failure::of_server(error.error(), &redactor);
    failure.diagnosis = redactor.redact_excerpt(error.diagnosis());
    let has_exited = matches!(error.error(), McpError::EndedInHandshake { .. });
    let ended = tokio::time::timeout(EXIT_TIMEOUT, program.wait()).await;
    program.kill();
    let _ = tokio::time::timeout(KILL_TIMEOUT, program.wait()).await;
    match ended {
        Ok(Ended::NotStarted { reason }) => {
            failure.code = "tool_server_not_started";
            failure.message = format!(
                "failed to start the program `{}`: {reason}; it can access only system folders and those in \
                 `readable_paths` and `writable_paths`",
                transport.command
            );
        }
        Ok(ended) if has_exited => {
            failure.message =
                format!("the tool server's program {ended} before it was connected; see its error output");
        }
        _ => {}
    }
    if has_exited && !transport.network && spec.handshake_limit > Duration::from_secs(60) {
        failure.message.push_str(&format!(
            "; `{}` downloads packages, but this server has no network access (`network`)",
            transport.command
        ));
    }
    failure
}
