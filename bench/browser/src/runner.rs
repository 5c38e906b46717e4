//! Runner for tasks of the suite with the browser crate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_browser::{Action, ActionRequest, Browser, Context, Download, DownloadState, ElementState, Tab};
use serde_json::{Map, Value};

use super::suite::Task;
use crate::Outcome;

const STEP_MS: u64 = 5_000;
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);
const FILE_BYTES: usize = 1_000;

/// Result of a task.
#[derive(Debug, Default)]
pub struct Ran {
    /// Duration of each step in milliseconds, including the first page.
    pub steps: Vec<f64>,
    pub error: Option<String>,
}

/// Browser and settings for tasks.
#[derive(Debug)]
pub struct Runner {
    context: Context,
    base: String,
    files: PathBuf,
}

struct Place {
    tab: Arc<Tab>,
    opener: Option<Arc<Tab>>,
}

impl Runner {
    /// Creates a runner; `files` is a folder for uploads.
    ///
    /// # Errors
    /// The folder is not writable, or the browser does not start.
    pub async fn new(browser: &Browser, base: String, files: PathBuf) -> Outcome<Self> {
        std::fs::write(files.join("upload.txt"), vec![b'u'; FILE_BYTES])?;
        Ok(Self { context: browser.context().await?, base, files })
    }

    /// Runs a task in its own tabs, which are closed afterwards.
    pub async fn run(&self, task: &Task) -> Ran {
        let mut ran = Ran::default();
        if let Err(error) = self.steps(task, &mut ran.steps).await {
            ran.error = Some(error.to_string());
        }
        for tab in self.context.tabs() {
            if let Err(error) = self.context.close_tab(&tab.tab_id).await {
                ran.error.get_or_insert_with(|| error.to_string());
            }
        }
        ran
    }

    async fn steps(&self, task: &Task, times: &mut Vec<f64>) -> Outcome<()> {
        let mut place = Place { tab: self.context.open_tab().await?, opener: None };
        let first = serde_json::json!({"action": "goto", "url": task.url});
        for step in std::iter::once(&first).chain(&task.steps) {
            let started = Instant::now();
            let done = self.step(&mut place, step).await;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            done.map_err(|error| format!("{step}: {error}"))?;
        }
        let started = Instant::now();
        while !task.title.is_empty() {
            let title = title(&place.tab).await?;
            if title == task.title {
                break;
            }
            if started.elapsed() > WAIT_TIMEOUT {
                return Err(format!("the title is {title:?} and not {:?}", task.title).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn step(&self, place: &mut Place, step: &Value) -> Outcome<()> {
        let mut step: Map<String, Value> = step.as_object().cloned().unwrap_or_default();
        step.insert("timeout_ms".to_owned(), STEP_MS.into());
        if let Some(url) = step.get("url").and_then(Value::as_str).filter(|url| url.starts_with('/')) {
            // The page a step waits for is identified by a part of its address.
            if step["action"] == "goto" {
                let url = format!("{}{url}", self.base);
                step.insert("url".to_owned(), url.into());
            }
        }
        if let Some(path) = step.get("path").and_then(Value::as_str) {
            let path = self.files.join(path).display().to_string();
            step.insert("path".to_owned(), path.into());
        }
        if let Some(line) = step.get("ref").and_then(Value::as_str) {
            let snapshot = place.tab.snapshot(false).await?;
            let found = snapshot.snapshot.lines().find_map(|listed| {
                let (number, rest) = listed.split_once(' ')?;
                rest.starts_with(line).then(|| number.to_owned())
            });
            let number = found.ok_or_else(|| format!("{line} is not in\n{}", snapshot.snapshot))?;
            step.insert("selector".to_owned(), number.into());
        }
        let file = step.get("downloads").and_then(Value::as_str).map(str::to_owned);
        let (opens, closes) = (step.contains_key("opens"), step.contains_key("closes"));
        let request: ActionRequest = serde_json::from_value(step.into())?;
        place.tab.act(request).await?;
        if let Some(file) = file {
            // Downloads of earlier runs were removed.
            let is_meant = |download: &Download| {
                download.name == file
                    && download.state == DownloadState::Done
                    && download.path.as_ref().is_some_and(|path| path.exists())
            };
            let found = self.context.wait_for_download(WAIT_TIMEOUT, is_meant).await?;
            std::fs::remove_file(found.path.unwrap_or_default())?;
        }
        if opens {
            let opener = place.tab.id().to_owned();
            let tab = self.context.wait_for_tab(WAIT_TIMEOUT, |tab| tab.opener_id.as_deref() == Some(&opener)).await?;
            place.opener = Some(std::mem::replace(&mut place.tab, tab));
        }
        if closes {
            place.tab = place.opener.take().ok_or("no tab opened this one")?;
        }
        Ok(())
    }
}

async fn title(tab: &Tab) -> Outcome<String> {
    let action = Action::WaitForSelector { selector: "html".to_owned(), state: Some(ElementState::Attached) };
    Ok(tab.act(action).await?.title)
}
