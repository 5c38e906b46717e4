//! Scripted server over a pair of in-memory streams.

use agentd_mcp::{CallLimits, ConnectError, ConnectOptions, Connection, McpError, StdioStreams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::initialized;

const PIPE_BYTES: usize = 64 * 1024;

/// Server side of the streams.
pub(crate) struct Script {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    pub(crate) stderr: DuplexStream,
}

impl Script {
    /// Returns the client's next message; `None` once it has closed the server's input.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.input.read_line(&mut line).await.expect("the client's message");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("JSON of the client"))
    }

    /// Returns the next message, which must have the method `method`.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.unwrap_or_else(|| panic!("input ended while waiting for {method}"));
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        // The other side of the test detects a disconnected client.
        let _ = self.output.write_all(bytes).await;
    }

    /// Closes the output; reading continues.
    pub(crate) async fn close_output(&mut self) {
        self.output.shutdown().await.expect("an open output");
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// Performs the older handshake.
    pub(crate) async fn initialize(&mut self, version: &str) {
        let request = self.expect("initialize").await;
        self.answer(&request, initialized(version)).await;
        self.expect("notifications/initialized").await;
    }

    /// Waits until the client closes the input.
    pub(crate) async fn wait_for_end(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Returns both sides of the streams.
pub(crate) fn streams(
    pipe_bytes: usize,
) -> (StdioStreams<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>, DuplexStream>, Script) {
    let (ours, theirs) = tokio::io::duplex(pipe_bytes);
    let (stderr, their_stderr) = tokio::io::duplex(pipe_bytes);
    let (stdout, stdin) = tokio::io::split(ours);
    let (input, output) = tokio::io::split(theirs);
    let script = Script { input: BufReader::new(input), output, stderr: their_stderr };
    (StdioStreams { stdout, stdin, stderr: Some(stderr) }, script)
}

/// Connects to a server that runs `script`.
pub(crate) async fn connect<F>(
    options: ConnectOptions,
    script: impl FnOnce(Script) -> F,
) -> (Result<Connection, ConnectError>, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (streams, server) = streams(PIPE_BYTES);
    let played = tokio::spawn(script(server));
    (Connection::over_stdio(streams, options).await, played)
}

/// Connects like [`connect`], after a successful handshake.
pub(crate) async fn connected<F>(script: impl FnOnce(Script) -> F + Send + 'static) -> (Connection, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    connected_with(ConnectOptions::default(), script).await
}

pub(crate) async fn connected_with<F>(
    options: ConnectOptions,
    script: impl FnOnce(Script) -> F + Send + 'static,
) -> (Connection, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (connection, played) = connect(options, |mut server| async move {
        server.initialize("2025-11-25").await;
        script(server).await;
    })
    .await;
    (connection.expect("a connection"), played)
}

/// Calls a tool and returns its text.
pub(crate) async fn call(connection: &Connection) -> Result<String, McpError> {
    connection.call_tool("a", json!({}), CallLimits::default()).await.map(|output| output.text)
}

/// Asserts that the connection still works: the script answers one more call with `ok`.
pub(crate) async fn still_works(connection: &Connection) {
    assert_eq!(call(connection).await.expect("an output"), "ok");
}
