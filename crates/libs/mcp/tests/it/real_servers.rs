//! Published servers of both protocol generations and several versions.

use std::path::Path;
use std::time::Duration;

use agentd_mcp::{CallLimits, CloseReason, ConnectOptions, Connection, Lifecycle, McpError};
use agentd_process::{Child, Spawner};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use url::Url;

use crate::support::http::client;
use crate::support::installed::{Program, folder};

/// Allows for slow program starts on a loaded machine.
fn options() -> ConnectOptions {
    ConnectOptions { handshake_limit: Duration::from_secs(120), ..ConnectOptions::default() }
}

async fn start(spawner: &Spawner, program: &Program) -> (Child, Connection) {
    let (child, connection) = program.connect(spawner, options()).await;
    let connection = connection.unwrap_or_else(|error| panic!("{program:?}: {error}\n{}", error.diagnosis()));
    (child, connection)
}

async fn call(connection: &Connection, name: &str, input: Value) -> agentd_mcp::ToolOutput {
    let output = connection.call_tool(name, input, CallLimits::default()).await;
    output.unwrap_or_else(|error| panic!("{name}: {error}\n{}", connection.diagnosis()))
}

async fn tool_names(connection: &Connection) -> Vec<String> {
    let list = connection.list_tools().await.expect("tools");
    assert!(list.left_out.is_empty() && list.cut_short.is_none(), "{list:?}");
    list.tools.into_iter().map(|tool| tool.name).collect()
}

/// Closing the session ends a program that monitors its input; no process of its group remains.
async fn end(child: Child, connection: Connection) {
    connection.close().await;
    let ended = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
    assert!(ended.is_ok(), "the program did not end when its input was closed");
    assert_eq!(group_members(child.pid()), Vec::<u32>::new());
}

/// Returns the processes in the group with this (possibly exited) leader.
fn group_members(leader: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(2) == Some(leader.to_string().as_str())
    })
    .collect()
}

async fn try_everything(connection: &Connection) {
    let names = tool_names(connection).await;
    assert!(names.len() >= 6 && names.contains(&"echo".to_owned()), "{names:?}");
    let echo = call(connection, "echo", json!({ "message": "hello" })).await;
    assert!(echo.text.contains("hello") && !echo.is_error, "{echo:?}");
    let wrong = connection.call_tool("echo", json!({ "message": 7 }), CallLimits::default()).await;
    assert!(matches!(&wrong, Ok(output) if output.is_error) || matches!(wrong, Err(McpError::Refused { .. })));
    let image = names.iter().find(|name| name.to_lowercase().replace('-', "").ends_with("tinyimage"));
    let image = call(connection, image.expect("a tool with an image"), json!({})).await;
    assert_eq!((image.attachments[0].kind, image.attachments[0].mime_type.as_str()), ("image", "image/png"));
    assert!(image.attachments[0].bytes > 1_000 && image.text.contains("image/png"));
    connection.ping(Duration::from_secs(60)).await.expect("a response to the ping");
}

#[tokio::test]
async fn current_reference_server_works_over_stdio() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "@modelcontextprotocol/server-everything", &[]);
    let (child, connection) = start(&spawner, &program).await;
    assert_eq!(connection.info().protocol_version, "2025-11-25");
    assert!(connection.info().instructions.is_some());
    try_everything(&connection).await;
    let structured = call(&connection, "get-structured-content", json!({ "location": "New York" })).await;
    assert!(structured.structured.is_some_and(|content| content.is_object()));
    assert!(connection.diagnosis().contains("STDIO"), "{}", connection.diagnosis());
    end(child, connection).await;
}

#[tokio::test]
async fn long_call_is_cancelled_and_the_server_continues() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "@modelcontextprotocol/server-everything", &[]);
    let (child, connection) = start(&spawner, &program).await;
    let limits = CallLimits { time: Duration::from_millis(300), ..CallLimits::default() };
    let long = json!({ "duration": 600, "steps": 600 });
    let error = connection.call_tool("trigger-long-running-operation", long, limits).await.expect_err("too long");
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
    assert!(call(&connection, "echo", json!({ "message": "still here" })).await.text.contains("still here"));
    // The running operation would keep the process alive for minutes.
    connection.close().await;
    child.kill();
    child.wait().await;
    assert_eq!(group_members(child.pid()), Vec::<u32>::new());
}

#[tokio::test]
async fn reference_server_of_2024_works_over_stdio() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "everything-of-2024-11-05", &[]);
    let (child, connection) = start(&spawner, &program).await;
    assert_eq!(connection.info().protocol_version, "2024-11-05");
    try_everything(&connection).await;
    // This version does not monitor its input and must be terminated.
    connection.close().await;
    child.terminate();
    tokio::time::timeout(Duration::from_secs(60), child.wait()).await.expect("the program's end");
    assert_eq!(group_members(child.pid()), Vec::<u32>::new());
}

/// Starts a program that listens on a port, and waits until it does.
async fn start_http(spawner: &Spawner, folder: &Path, package: &str) -> (Child, Url) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a port").port();
    let program = Program::node(folder, package, &["streamableHttp"]).with_variable("PORT", &port.to_string());
    let mut child = program.start(spawner).await;
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (mut stdout, mut stderr) = (stdout.lines(), stderr.lines());
    loop {
        let line = tokio::select! {
            Ok(Some(line)) = stdout.next_line() => line,
            Ok(Some(line)) = stderr.next_line() => line,
            else => panic!("{package} ended instead of listening"),
        };
        if line.contains("listening on port") {
            break;
        }
    }
    // Later output is discarded, but must not fill the pipes.
    tokio::spawn(async move { while let Ok(Some(_)) = stdout.next_line().await {} });
    tokio::spawn(async move { while let Ok(Some(_)) = stderr.next_line().await {} });
    (child, Url::parse(&format!("http://127.0.0.1:{port}/mcp")).expect("an address"))
}

#[tokio::test]
async fn current_and_2025_reference_servers_work_over_http() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    for (package, version) in
        [("@modelcontextprotocol/server-everything", "2025-11-25"), ("everything-of-2025-03-26", "2025-03-26")]
    {
        let (child, url) = start_http(&spawner, &folder, package).await;
        let connection = Connection::over_http(url, &[], client(), options()).await.expect("a connection");
        assert_eq!(connection.info().protocol_version, version, "{package}");
        try_everything(&connection).await;
        let limits = CallLimits { time: Duration::from_millis(300), ..CallLimits::default() };
        let long = json!({ "duration": 600, "steps": 600 });
        let name = tool_names(&connection).await.into_iter().find(|name| name.to_lowercase().contains("long"));
        let error = connection.call_tool(&name.expect("a long tool"), long, limits).await.expect_err("too long");
        assert!(matches!(error, McpError::Timeout { .. }), "{package}: {error:?}");
        assert!(call(&connection, "echo", json!({ "message": "still here" })).await.text.contains("still here"));
        connection.close().await;
        child.kill();
        child.wait().await;
    }
}

#[tokio::test]
async fn filesystem_server_reads_and_writes_files() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let directory = tempfile::tempdir().expect("a folder");
    let root = directory.path().canonicalize().expect("a path");
    let root = root.to_str().expect("text");
    let program = Program::node(&folder, "@modelcontextprotocol/server-filesystem", &[root]);
    let (child, connection) = start(&spawner, &program).await;
    let list = connection.list_tools().await.expect("tools");
    let read = list.tools.iter().find(|tool| tool.name == "read_text_file").expect("the tool");
    assert_eq!(read.hints.read_only, Some(true));
    let file = format!("{root}/note.txt");
    let written = call(&connection, "write_file", json!({ "path": file, "content": "ünïcode\nline" })).await;
    assert!(!written.is_error, "{written:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "ünïcode\nline");
    assert_eq!(call(&connection, "read_text_file", json!({ "path": file })).await.text, "ünïcode\nline");
    let outside = call(&connection, "read_text_file", json!({ "path": "/etc/passwd" })).await;
    assert!(outside.is_error && !outside.text.contains("root:"), "{outside:?}");
    let big = "x".repeat(1_000_000);
    std::fs::write(&file, &big).expect("a file");
    let cut = call(&connection, "read_text_file", json!({ "path": file })).await;
    assert_eq!((cut.text.len(), cut.text_cut_from_bytes), (256 * 1024, Some(1_000_000)));
    end(child, connection).await;
}

#[tokio::test]
async fn memory_server_persists_between_sessions() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let directory = tempfile::tempdir().expect("a folder");
    let file = directory.path().join("memory.jsonl");
    let program = Program::node(&folder, "@modelcontextprotocol/server-memory", &[])
        .with_variable("MEMORY_FILE_PATH", file.to_str().expect("text"));
    let (child, connection) = start(&spawner, &program).await;
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["likes engines"] });
    let created = call(&connection, "create_entities", json!({ "entities": [entity] })).await;
    assert!(!created.is_error, "{created:?}");
    end(child, connection).await;
    let (child, connection) = start(&spawner, &program).await;
    let found = call(&connection, "search_nodes", json!({ "query": "engines" })).await;
    assert!(found.text.contains("Ada"), "{found:?}");
    end(child, connection).await;
}

#[tokio::test]
async fn current_time_server_supports_both_handshakes() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::python(&folder, "python", "mcp-server-time");
    for (lifecycle, version) in
        [(Lifecycle::Auto, "2025-11-25"), (Lifecycle::Initialize, "2025-11-25"), (Lifecycle::Discover, "2026-07-28")]
    {
        let (child, connection) = program.connect(&spawner, ConnectOptions { lifecycle, ..options() }).await;
        let connection = connection.expect("a connection");
        assert_eq!(connection.info().protocol_version, version);
        assert_eq!(connection.info().name, "mcp-time");
        ask_the_time(&connection).await;
        end(child, connection).await;
    }
}

/// This server uses the first version of its library, which exits on an unknown request: `server/discover` must not
/// precede `initialize`.
#[tokio::test]
async fn time_server_of_2024_works() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::python(&folder, "python-older", "mcp-server-time");
    let (child, connection) = start(&spawner, &program).await;
    assert_eq!(connection.info().protocol_version, "2024-11-05");
    ask_the_time(&connection).await;
    connection.close().await;
    child.kill();
    child.wait().await;

    let modern = ConnectOptions { lifecycle: Lifecycle::Discover, ..options() };
    let (_child, refused) =
        program.connect(&spawner, ConnectOptions { handshake_limit: Duration::from_secs(3), ..modern }).await;
    assert!(refused.is_err());
}

async fn ask_the_time(connection: &Connection) {
    let names = tool_names(connection).await;
    assert_eq!(names, ["get_current_time", "convert_time"]);
    let input = json!({ "source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let converted = call(connection, "convert_time", input).await;
    assert!(converted.text.contains("Asia/Tokyo") && !converted.is_error, "{converted:?}");
    let wrong =
        connection.call_tool("get_current_time", json!({ "timezone": "Mars/Base" }), CallLimits::default()).await;
    assert!(
        matches!(&wrong, Ok(output) if output.is_error) || matches!(wrong, Err(McpError::Refused { .. })),
        "{wrong:?}"
    );
    connection.ping(Duration::from_secs(60)).await.expect("a response to the ping");
}

#[tokio::test]
async fn killed_server_is_detected_immediately() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "@modelcontextprotocol/server-everything", &[]);
    let (child, connection) = start(&spawner, &program).await;
    let long = json!({ "duration": 600, "steps": 600 });
    let call = connection.call_tool("trigger-long-running-operation", long, CallLimits::default());
    let (result, ()) = tokio::join!(call, async {
        connection.ping(Duration::from_secs(60)).await.expect("a response to the ping");
        child.kill();
    });
    let is_closed = |reason: &CloseReason| matches!(reason, CloseReason::OutputClosed | CloseReason::InputClosed);
    assert!(matches!(&result, Err(McpError::Closed { reason }) if is_closed(reason)), "{result:?}");
    assert!(is_closed(&connection.closed().await));
    child.wait().await;
    assert_eq!(group_members(child.pid()), Vec::<u32>::new());
}

#[tokio::test]
async fn failing_program_is_diagnosed_from_its_error_output() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "@modelcontextprotocol/server-filesystem", &["/no/such/folder"]);
    let (_child, connection) = program.connect(&spawner, options()).await;
    let error = connection.expect_err("no connection");
    assert!(matches!(error.error(), McpError::EndedInHandshake { .. }), "{error:?}");
    assert!(error.diagnosis().contains("/no/such/folder"), "{}", error.diagnosis());
}

#[tokio::test]
async fn repeated_connections_leave_no_process() {
    let Some(folder) = folder() else { return };
    let spawner = Spawner::start().expect("a spawner");
    let program = Program::node(&folder, "@modelcontextprotocol/server-memory", &[]);
    for cycle in 0..8 {
        let (child, connection) = start(&spawner, &program).await;
        connection.list_tools().await.expect("tools");
        match cycle % 3 {
            0 => end(child, connection).await,
            // Ended by the daemon.
            1 => {
                drop(connection);
                child.wait().await;
                assert_eq!(group_members(child.pid()), Vec::<u32>::new());
            }
            _ => {
                child.kill();
                connection.closed().await;
                child.wait().await;
                assert_eq!(group_members(child.pid()), Vec::<u32>::new());
            }
        }
    }
}
