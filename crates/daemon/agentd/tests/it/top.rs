//! `agentd top` on a terminal and in scripts.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::cli::agentd;
use crate::support::process::BINARY;
use crate::support::{Eventually, TestProcess};

/// A shell command on a pseudo terminal.
struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    shown: Arc<Mutex<String>>,
    reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    fn run(process: &TestProcess, shell: &str) -> Self {
        let plain = process.command();
        let mut command = Command::new("script");
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("NO_COLOR", "1").env("TERM", "xterm").args(["-qec", shell, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start the process");
        let keyboard = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, keyboard, shown, reader }
    }

    /// Waits for a text after the first `from` bytes; returns the number of bytes received by then.
    async fn wait_for_text(&self, from: usize, text: &str) -> usize {
        let mut eventually = Eventually::new();
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if shown.get(from..).is_some_and(|new| new.contains(text)) {
                return shown.len();
            }
            eventually.retry_with(&(text, shown)).await;
        }
    }

    fn press(&mut self, key: &str) {
        self.keyboard.write_all(key.as_bytes()).expect("write the key");
    }

    /// Waits for the end and returns everything that was shown.
    async fn end(mut self) -> String {
        let mut eventually = Eventually::new();
        while self.child.try_wait().expect("a child").is_none() {
            let shown = self.shown.lock().unwrap().clone();
            eventually.retry_with(&shown).await;
        }
        // The reader may still receive the last output.
        self.reader.join().expect("join the reader");
        self.shown.lock().unwrap().clone()
    }
}

/// Returns the text between two markers.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    text.split(from).nth(1).and_then(|rest| rest.split(to).next()).unwrap_or_else(|| panic!("{from}…{to} in {text:?}"))
}

async fn check_exit_with(key: &str) {
    let process = TestProcess::with_owner().await;
    let shell = format!(
        "trap : INT; stty cols 40 rows 9; echo [before; stty -g; echo before]; {BINARY} top --interval 1; echo [after; stty -g; echo after]"
    );
    let mut terminal = Terminal::run(&process, &shell);
    let seen = terminal.wait_for_text(0, "requests ").await;
    terminal.wait_for_text(seen, "requests ").await;
    terminal.press("x");
    terminal.press(key);
    let shown = terminal.end().await;
    assert_eq!(
        between(&shown, "[before", "before]"),
        between(&shown, "[after", "after]"),
        "the terminal settings are restored"
    );
    let drawn = between(&shown, "\u{1b}[?7l", "\u{1b}[?7h");
    for frame in drawn.split("\u{1b}[H").skip(1) {
        let lines: Vec<&str> = frame.split('\n').collect();
        assert!(lines.len() <= 9, "{frame:?}");
        for line in lines {
            let text = line.replace("\u{1b}[K", "").replace("\u{1b}[J", "");
            assert!(text.trim_end().chars().count() <= 40, "{text:?} exceeds the terminal width");
        }
    }
    assert!(drawn.contains("requests ") && drawn.contains("turns "), "{drawn:?}");
}

#[tokio::test]
async fn top_fits_the_terminal_and_restores_it_on_q() {
    check_exit_with("q").await;
}

#[tokio::test]
async fn top_restores_the_terminal_on_ctrl_c() {
    check_exit_with("\u{3}").await;
}

#[tokio::test]
async fn top_waits_for_an_unavailable_daemon() {
    let mut process = TestProcess::with_owner().await;
    let mut terminal = Terminal::run(&process, &format!("stty cols 200 rows 50; {BINARY} top --interval 1"));
    let seen = terminal.wait_for_text(0, "requests ").await;
    process.kill();
    let seen = terminal.wait_for_text(seen, "unavailable").await;
    let seen = terminal.wait_for_text(seen, "no daemon runs on").await;
    process.spawn().await;
    let seen = terminal.wait_for_text(seen, "requests ").await;
    terminal.press("q");
    let shown = terminal.end().await;
    assert!(shown.len() > seen && shown.contains("\u{1b}[?1049l"), "{shown:?}");
}

#[tokio::test]
async fn json_output_has_one_object_per_line() {
    let mut process = TestProcess::with_owner().await;
    let mut command = process.command();
    command.args(["top", "--json", "--interval", "1"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("start the process");
    let output = child.stdout.take().expect("a pipe");
    let read = move || BufReader::new(output).lines().take(2).map(|line| line.expect("a line")).collect::<Vec<_>>();
    let lines = tokio::task::spawn_blocking(read).await.expect("two lines");
    for (number, line) in lines.iter().enumerate() {
        let sample: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&sample["is_reachable"], &sample["turns_running"]), (&true.into(), &0.into()), "{sample}");
        assert_eq!(sample["tokens_per_second"].as_f64(), (number == 1).then_some(0.0), "{sample}");
        assert_eq!(sample["health"]["components"][0]["status"], "healthy", "{sample}");
        assert!(sample["performance"]["requests"]["count"].is_u64(), "{sample}");
        assert!(sample["system"]["memory"]["process_bytes"].is_u64(), "{sample}");
        assert!(sample["alerts"].is_array(), "{sample}");
    }
    // The reader has closed the pipe.
    let ended =
        tokio::task::spawn_blocking(move || child.wait().expect("wait for the process")).await.expect("join the task");
    assert!(ended.success());
    let once = agentd(&process, &["top", "--json", "--once"]).await.success();
    assert!(serde_json::from_slice::<Value>(&once.stdout).expect("one object")["at"].is_string());
    process.kill();
    let away = agentd(&process, &["top", "--once", "--json"]).await.failure();
    assert!(away.stdout.is_empty() && away.stderr.contains("no daemon runs on"), "{}", away.stderr);
}

#[tokio::test]
async fn top_without_a_terminal_prints_one_sample() {
    let process = TestProcess::with_owner().await;
    let ran = agentd(&process, &["top"]).await.success();
    assert!(ran.stderr.contains("stdout is not a terminal"), "{}", ran.stderr);
    let text = String::from_utf8(ran.stdout).expect("text");
    assert!(text.contains("requests ") && !text.contains('\u{1b}'), "{text}");
    for wrong in [["top", "--interval", "0"], ["top", "--interval", "3601"], ["top", "--interval", "x"]] {
        let ran = agentd(&process, &wrong).await;
        assert!(ran.code == Some(2) && ran.stderr.contains("--interval"), "{}", ran.stderr);
    }
}
