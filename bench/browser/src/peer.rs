//! Playwright in its own process, which performs the same tasks with the same Chromium.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::runner::Ran;
use super::suite::Task;
use crate::Outcome;

/// Running Playwright process; one request and one response per line.
#[derive(Debug)]
pub struct Playwright {
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Playwright {
    /// # Errors
    /// Node or Playwright is not installed (`make bench-browser` installs Playwright).
    #[allow(clippy::disallowed_methods, reason = "one child, which ends with its pipes")]
    pub async fn start(base: &str, upload: &str) -> Outcome<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/playwright.mjs");
        let mut child = Command::new("node")
            .args([script, base, upload])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
        let mut peer = Self { stdin, answers: BufReader::new(stdout).lines(), _child: child };
        peer.ask(&json!({"ask": "start"})).await?;
        Ok(peer)
    }

    /// # Errors
    /// The process has ended.
    pub async fn run(&mut self, task: &Task) -> Outcome<Ran> {
        let answer = self.ask(&json!({"ask": "task", "task": task})).await?;
        let steps = answer["steps"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        Ok(Ran { steps, error: answer["error"].as_str().map(str::to_owned) })
    }

    /// Returns the milliseconds of each repetition of an action.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn measure(&mut self, what: &str, times: usize) -> Outcome<Vec<f64>> {
        let answer = self.ask(&json!({"ask": what, "times": times})).await?;
        Ok(answer["times"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
    }

    /// Returns the title of a page in a context created with this state.
    ///
    /// # Errors
    /// The process has ended, or rejects the state.
    pub async fn title_with(&mut self, state: &Value, url: &str) -> Outcome<String> {
        let answer = self.ask(&json!({"ask": "title_with", "state": state, "url": url})).await?;
        Ok(answer["title"].as_str().ok_or("no title")?.to_owned())
    }

    /// Returns the state of a context that visited a page.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn state_after(&mut self, url: &str) -> Outcome<Value> {
        Ok(self.ask(&json!({"ask": "state_after", "url": url})).await?["state"].take())
    }

    async fn ask(&mut self, request: &Value) -> Outcome<Value> {
        self.stdin.write_all(format!("{request}\n").as_bytes()).await?;
        let line = self.answers.next_line().await?.ok_or("Playwright has ended")?;
        Ok(serde_json::from_str(&line)?)
    }
}
