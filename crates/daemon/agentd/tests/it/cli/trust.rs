//! Configuration files, secret files, and sockets that another user could have written are rejected.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{CommandResult, agentd, agentd_with, finding, path};
use crate::support::process::{BINARY, NOBODY, as_user};
use crate::support::{Eventually, TestProcess};

/// The system's interpreter, which every user may run.
const PYTHON: &str = "/usr/bin/python3";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the mode is set");
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder is created");
    std::fs::write(file, text).expect("the file is written");
    set_mode(file, 0o644);
}

#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can act as another user");
    }
    is_root
}

/// Environment of a user's shell: its own home directory, and no variables that name files.
struct Shell {
    home: PathBuf,
    directory: PathBuf,
}

impl Shell {
    fn new(process: &TestProcess) -> Self {
        let (home, directory) = (process.folder().join("home"), process.folder().join("work"));
        for folder in [&home, &directory] {
            std::fs::create_dir(folder).expect("the folder is created");
            set_mode(folder, 0o755);
        }
        Self { home, directory }
    }

    fn user_config(&self) -> PathBuf {
        self.home.join(".config/agentd/agentd.toml")
    }

    async fn run(&self, arguments: &[&str]) -> CommandResult {
        let mut command = Command::new(BINARY);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &self.home).current_dir(&self.directory).args(arguments).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().expect("the command runs").into())
            .await
            .expect("the command ends")
    }
}

/// A server of another user on a Unix socket that records what it receives.
struct ForeignServer {
    child: Child,
    socket: PathBuf,
    record: PathBuf,
}

impl ForeignServer {
    async fn start(socket: PathBuf, record: PathBuf) -> Self {
        const SERVER: &str = "import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
while True:
    connection, _ = server.accept()
    with open(sys.argv[2], 'ab', 0) as record:
        record.write(connection.recv(65536))
";
        let child =
            as_user(NOBODY, PYTHON).args(["-c", SERVER]).args([&socket, &record]).spawn().expect("the command runs");
        let server = Self { child, socket, record };
        let mut eventually = Eventually::new();
        while UnixStream::connect(&server.socket).is_err() {
            eventually.retry_with(&server.socket).await;
        }
        server
    }

    /// Returns everything that the server has received.
    async fn received(&self) -> String {
        const END: &str = "END";
        UnixStream::connect(&self.socket).expect("connected").write_all(END.as_bytes()).expect("sent");
        let mut eventually = Eventually::new();
        loop {
            let record = std::fs::read_to_string(&self.record).unwrap_or_default();
            if let Some(received) = record.strip_suffix(END) {
                return received.to_owned();
            }
            eventually.retry_with(&record).await;
        }
    }
}

impl Drop for ForeignServer {
    fn drop(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

#[tokio::test]
async fn files_in_the_working_directory_are_ignored() {
    let mut process = TestProcess::stopped().await;
    let shell = Shell::new(&process);
    let collector = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let data = shell.directory.join("data");
    let hostile = format!(
        "data_dir = \"{}\"\nbrowser_path = \"{}/browser\"\notlp_endpoint = \"http://{}\"\ncors_origins = \"https://evil.example\"\n",
        data.display(),
        shell.directory.display(),
        collector.local_addr().expect("an address"),
    );
    write(&shell.directory.join("agentd.toml"), &hostile);
    write(&shell.directory.join("models/evil.gguf"), "");
    write(&shell.directory.join("chromium"), "#!/bin/sh\n");
    set_mode(&shell.directory.join("chromium"), 0o755);

    // A command does not use the file to find a socket that waits for messages.
    std::fs::create_dir(&data).expect("the folder is created");
    let socket = UnixListener::bind(data.join("agentd.sock")).expect("a socket");
    let refused = shell.run(&["chat", "a secret"]).await.failure();
    let own = shell.home.join(".local/share/agentd");
    assert!(refused.stderr.contains(&format!("no daemon runs on {}", own.display())), "{}", refused.stderr);
    socket.set_nonblocking(true).expect("set");
    assert_eq!(socket.accept().expect_err("no connection").kind(), std::io::ErrorKind::WouldBlock);

    // A daemon reads neither the file nor the models, and logs the ignored file.
    process.spawn_after(&format!("cd {}", shell.directory.display())).await;
    let log = process.log();
    assert!(log.contains("configuration loaded without a file"), "{log}");
    assert!(log.contains("configuration file ignored"), "{log}");
    process.get("/api/health").header("origin", "https://evil.example").send().await.expect_status(200);
    let mut command = process.command();
    command.current_dir(&shell.directory).args(["doctor", "--json"]).env("PATH", "::.");
    let report: CommandResult = command.output().expect("the command runs").into();
    let report = report.json();
    assert!(!format!("{report}").contains("evil"), "{report:#}");
    let browser = finding(&report, "browser");
    assert!(!browser["finding"].as_str().expect("a text").starts_with("chromium"), "{browser}");
    assert!(process.terminate().await.success());
    collector.set_nonblocking(true).expect("set");
    assert_eq!(collector.accept().expect_err("no spans").kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn user_config_is_read_and_logged() {
    let mut process = TestProcess::stopped().await;
    let shell = Shell::new(&process);
    // The path is relative to the file, regardless of the working directory.
    write(&shell.user_config(), "data_dir = \"state\"\n");
    let refused = shell.run(&["chat", "Hi"]).await.failure();
    let state = shell.home.join(".config/agentd/state");
    assert!(refused.stderr.contains(&format!("no daemon runs on {}", state.display())), "{}", refused.stderr);
    let report = shell.run(&["doctor", "--json"]).await.json();
    let configuration = finding(&report, "configuration");
    assert!(configuration["finding"].as_str().expect("a text").contains(path(&shell.user_config())));

    let home = shell.home.display();
    process.spawn_after(&format!("export HOME={home}")).await;
    let log = process.log();
    let line = log.lines().find(|line| line.contains("configuration loaded")).expect("the line");
    assert!(line.contains("config.file=") && line.contains(path(&shell.user_config())), "{line}");

    // A relative directory in the variable is invalid, so the one in the home directory is used.
    let mut command = Command::new(BINARY);
    command.env_clear().env("HOME", &shell.home).env("XDG_CONFIG_HOME", "work").current_dir(process.folder());
    write(&process.folder().join("work/agentd/agentd.toml"), "data_dir = \"evil\"\n");
    let refused: CommandResult = command.args(["chat", "Hi"]).output().expect("the command runs").into();
    assert!(refused.stderr.contains(path(&state)), "{}", refused.stderr);

    write(&shell.user_config(), "data_dir = 5\n");
    let broken = shell.run(&["chat", "Hi"]).await.failure();
    assert!(broken.stderr.contains(path(&shell.user_config())), "{}", broken.stderr);
}

#[tokio::test]
async fn config_writable_by_others_is_rejected_with_a_remedy() {
    let process = TestProcess::stopped().await;
    let shell = Shell::new(&process);
    let file = shell.user_config();
    write(&file, "log = \"warn\"\n");
    let folder = file.parent().expect("a folder");
    for (part, mode) in [(file.as_path(), 0o664), (&file, 0o646), (folder, 0o775), (folder, 0o777)] {
        let before = part.metadata().expect("metadata").permissions();
        set_mode(part, mode);
        for arguments in [["chat", "Hi"], ["keys", "list"]] {
            let refused = shell.run(&arguments).await.failure();
            for expected in [format!("{} is not trusted", file.display()), format!("chmod go-w {}", part.display())] {
                assert!(refused.stderr.contains(&expected), "{expected} in {}", refused.stderr);
            }
        }
        let served = shell.run(&["serve"]).await.failure();
        assert!(served.stderr.contains("is not trusted"), "{}", served.stderr);
        std::fs::set_permissions(part, before).expect("the mode is restored");
    }
    assert!(shell.run(&["chat", "Hi"]).await.failure().stderr.contains("no daemon runs"));
    assert!(!shell.home.join(".local").exists(), "nothing was created");

    // A file named by a flag or a variable is checked likewise.
    let other = process.folder().join("other.toml");
    write(&other, "log = \"warn\"\n");
    set_mode(&other, 0o666);
    let refused = shell.run(&["--config", path(&other), "chat", "Hi"]).await.failure();
    assert!(refused.stderr.contains(&format!("chmod go-w {}", other.display())), "{}", refused.stderr);
    let refused = agentd_with(&process, &["chat", "Hi"], &[("SVC_CONFIG", path(&other))]).await.failure();
    assert!(refused.stderr.contains("is not trusted"), "{}", refused.stderr);
}

#[tokio::test]
async fn config_of_another_user_is_rejected_even_behind_a_symlink() {
    if !is_root() {
        return;
    }
    let process = TestProcess::stopped().await;
    let shell = Shell::new(&process);
    let file = shell.user_config();
    let target = process.folder().join("target.toml");
    write(&target, "log = \"warn\"\n");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    symlink(&target, &file).expect("linked");
    assert!(shell.run(&["chat", "Hi"]).await.failure().stderr.contains("no daemon runs"), "an own link is accepted");
    chown(&target, Some(NOBODY), None).expect("the owner is changed");
    let refused = shell.run(&["chat", "Hi"]).await.failure();
    for expected in ["is not trusted", path(&target), "belongs to user 65534", "chown"] {
        assert!(refused.stderr.contains(expected), "{expected} in {}", refused.stderr);
    }
    let report = shell.run(&["doctor", "--json"]).await.failure().json();
    assert!(finding(&report, "configuration")["finding"].as_str().is_some_and(|text| text.contains("not trusted")));
}

#[tokio::test]
async fn secret_files_writable_by_others_are_rejected() {
    let mut process = TestProcess::stopped().await;
    let shared = process.folder().join("shared");
    let key = shared.join("key");
    write(&key, &format!("svc_{}\n", "5a".repeat(32)));
    set_mode(&key, 0o600);
    set_mode(&shared, 0o777);
    for variable in ["SVC_SECRET_KEY_FILE", "SVC_BOOTSTRAP_API_KEY_FILE", "SVC_OTLP_HEADERS_FILE"] {
        let refused = agentd_with(&process, &["serve"], &[(variable, path(&key)), ("SVC_PORT", "0")]).await.failure();
        assert!(refused.stderr.contains(&format!("chmod go-w {}", shared.display())), "{}", refused.stderr);
    }
    // No key is created there either.
    let absent = shared.join("absent");
    let variables = [("SVC_SECRET_KEY_FILE", path(&absent)), ("SVC_PORT", "0")];
    agentd_with(&process, &["serve"], &variables).await.failure();
    assert!(!absent.exists());

    process.spawn().await;
    let passphrase = process.folder().join("passphrase");
    write(&passphrase, "correct horse\n");
    let archive = process.folder().join("archive.tar.gz");
    let arguments = ["backup", "--passphrase-file", path(&passphrase), path(&archive)];
    agentd(&process, &arguments).await.success();
    set_mode(&passphrase, 0o620);
    let refused = agentd(&process, &[&arguments[..], &["--force"]].concat()).await.failure();
    assert!(refused.stderr.contains("chmod go-w"), "{}", refused.stderr);
}

#[tokio::test]
async fn socket_of_another_user_receives_no_message() {
    if !is_root() {
        return;
    }
    let process = TestProcess::stopped().await;
    let open = process.folder().join("open");
    std::fs::create_dir(&open).expect("made");
    set_mode(process.folder(), 0o755);
    set_mode(&open, 0o1777);
    let (socket, record) = (open.join("agentd.sock"), open.join("record"));
    let server = ForeignServer::start(socket.clone(), record).await;
    let chat = async || {
        let refused = agentd_with(&process, &["chat", "a secret"], &[("SVC_DATA_DIR", path(&open))]).await.failure();
        assert!(refused.stderr.contains("is not trusted"), "{}", refused.stderr);
        refused.stderr
    };
    assert!(chat().await.contains("agentd.sock belongs to user 65534"));
    let keys = [("SVC_DATA_DIR", path(&open))];
    agentd_with(&process, &["keys", "create", "--name", "mine"], &keys).await.failure();
    // The process behind the socket is checked regardless of the file's owner and mode.
    chown(&socket, Some(0), Some(0)).expect("the owner is changed");
    set_mode(&socket, 0o600);
    assert!(chat().await.contains("runs as user 65534"));
    set_mode(&socket, 0o666);
    assert!(chat().await.contains("chmod go-w"));
    set_mode(&socket, 0o600);
    set_mode(&open, 0o777);
    assert!(chat().await.contains("chmod go-w"));
    assert_eq!(server.received().await, "");
}

#[tokio::test]
async fn root_reaches_the_daemon_of_the_data_directory_owner() {
    if !is_root() {
        return;
    }
    let process = TestProcess::unprivileged().await;
    let data_dir = process.data_dir();
    let mut command = Command::new(BINARY);
    command.env_clear().env("SVC_DATA_DIR", &data_dir).args(["keys", "list"]);
    let listed: CommandResult = command.output().expect("the command runs").into();
    assert!(listed.success().text().contains("test"));
    // Without a daemon, root would create files that the owner cannot use.
    let mut process = process;
    process.kill();
    let refused: CommandResult = command.output().expect("the command runs").into();
    assert!(refused.failure().stderr.contains("run it as user 65534"));
}

#[tokio::test]
async fn private_socket_serves_only_its_user_and_root() {
    if !is_root() {
        return;
    }
    let process = TestProcess::with_owner().await;
    let socket = process.data_dir().join("agentd.sock");
    assert_eq!(socket.metadata().expect("metadata").permissions().mode() & 0o777, 0o600);
    // Simulates an owner who opened the socket to everyone.
    for (part, mode) in [(process.folder(), 0o755), (process.data_dir().as_path(), 0o711), (socket.as_path(), 0o666)] {
        set_mode(part, mode);
    }
    let ask = |mut client: Command| {
        const CLIENT: &str = "import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
try:
    connection.sendall(b'GET /api/auth/keys HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')
    while data := connection.recv(65536):
        sys.stdout.buffer.write(data)
except (BrokenPipeError, ConnectionResetError):
    pass
";
        let output = client.args(["-c", CLIENT]).arg(&socket).output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(ask(Command::new(PYTHON)).starts_with("HTTP/1.1 200"));
    assert_eq!(ask(as_user(NOBODY, PYTHON)), "");
    assert!(process.log().contains("private socket connection refused"), "{}", process.log());
}

#[tokio::test]
async fn command_with_a_data_directory_needs_no_home() {
    let process = TestProcess::stopped().await;
    let run = async |variables: &[(&str, &str)]| -> CommandResult {
        let mut command = Command::new(BINARY);
        command.env_clear().envs(variables.iter().copied()).args(["chat", "Hi"]).current_dir(process.folder());
        tokio::task::spawn_blocking(move || command.output().expect("the command runs").into())
            .await
            .expect("the command ends")
    };
    let refused = run(&[]).await.failure();
    assert!(refused.stderr.contains("neither SVC_DATA_DIR nor HOME is set"), "{}", refused.stderr);
    let refused = run(&[("HOME", "relative")]).await.failure();
    assert!(refused.stderr.contains("neither SVC_DATA_DIR nor HOME is set"), "{}", refused.stderr);
    let found = run(&[("SVC_DATA_DIR", "/nowhere")]).await.failure();
    assert!(found.stderr.contains("no daemon runs on /nowhere"), "{}", found.stderr);
}
