//! Real servers that `make tool-servers` installs.

use std::path::{Path, PathBuf};

use agentd_mcp::{ConnectError, ConnectOptions, Connection, StdioStreams};
use agentd_process::{Child, SpawnRequest, Spawner, Stream};

/// Returns the folder with the servers. If it is missing and not required, prints a notice and returns `None`.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.tool-servers");
    if folder.join("stamp").is_file() {
        return folder.canonicalize().ok();
    }
    assert!(
        std::env::var_os("AGENTD_REQUIRE_TOOL_SERVERS").is_none(),
        "the tool servers are not installed; run `make tool-servers`"
    );
    eprintln!("SKIPPED: the tool servers are not installed; run `make tool-servers`");
    None
}

/// Program to run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Program {
    pub(crate) fn node(folder: &Path, package: &str, arguments: &[&str]) -> Self {
        let script = folder.join("node_modules").join(package).join("dist/index.js");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        let arguments = std::iter::once(script.display().to_string()).chain(arguments).collect();
        Self { path: "/usr/bin/env".into(), arguments, environment: Vec::new() }.wrapped_by("node")
    }

    pub(crate) fn python(folder: &Path, environment: &str, executable: &str) -> Self {
        let path = folder.join(environment).join("bin").join(executable);
        Self { path, arguments: Vec::new(), environment: Vec::new() }
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn wrapped_by(mut self, command: &str) -> Self {
        self.arguments.insert(0, command.to_owned());
        self
    }

    pub(crate) async fn start(&self, spawner: &Spawner) -> Child {
        let mut request = SpawnRequest::new(&self.path);
        request.arguments = self.arguments.iter().map(Into::into).collect();
        request.environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())];
        request.environment.extend(self.environment.iter().map(|(name, value)| (name.into(), value.into())));
        (request.stdin, request.stdout, request.stderr) = (Stream::Pipe, Stream::Pipe, Stream::Pipe);
        spawner.spawn(request).await.unwrap_or_else(|error| panic!("{self:?} does not start: {error}"))
    }

    /// Starts the program and connects to it.
    pub(crate) async fn connect(
        &self,
        spawner: &Spawner,
        options: ConnectOptions,
    ) -> (Child, Result<Connection, ConnectError>) {
        let mut child = self.start(spawner).await;
        let streams = StdioStreams {
            stdout: child.stdout.take().expect("a pipe"),
            stdin: child.stdin.take().expect("a pipe"),
            stderr: child.stderr.take(),
        };
        (child, Connection::over_stdio(streams, options).await)
    }
}
