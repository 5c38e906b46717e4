//! Execution of the tools.

use agentd_base::{DomainError, ErrorKind};
use agentd_browser::{Area, DialogAnswer, ImageFormat};
use agentd_engine::agents::Agent;
use agentd_engine::tools::{Author, Consequence, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput};
use agentd_engine::workspaces::UntrustedSource;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::consequence::consequence;
use super::describe::Kind;
use super::output::PageOutput;
use crate::browser::error::BrowserError;
use crate::browser::model::{Actor, BrowserAction};
use crate::browser::service::{Browser, DownloadEntry, PerformedAction, Picture};

const DEFAULT_MAX_CHARACTERS: usize = 20_000;
/// Folder for screenshots in the workspace.
const SCREENSHOTS_FOLDER: &str = "screenshots";

#[derive(Deserialize)]
struct OpenInput {
    url: String,
    #[serde(default)]
    new_tab: bool,
}

#[derive(Deserialize)]
struct ReadInput {
    max_characters: Option<usize>,
    tab_id: Option<String>,
}

#[derive(Deserialize)]
struct ScreenshotInput {
    #[serde(default)]
    full_page: bool,
    selector: Option<String>,
    path: Option<String>,
    tab_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TabsAction {
    List,
    Activate,
    Close,
}

#[derive(Deserialize)]
struct TabsInput {
    action: TabsAction,
    tab_id: Option<String>,
}

fn parse<I: DeserializeOwned>(input: Map<String, Value>) -> Result<I, ToolError> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolError::Invalid(format!("the input does not fit: {error}")))
}

/// Converts an error into the message for the model.
fn tool_error(error: &BrowserError) -> ToolError {
    match error.kind() {
        ErrorKind::Invalid(fields) if !fields.is_empty() => {
            let fields: Vec<String> =
                fields.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
            ToolError::Invalid(fields.join("; "))
        }
        ErrorKind::Invalid(_) => ToolError::Invalid(error.to_string()),
        ErrorKind::Internal => {
            tracing::warn!(cause = error as &dyn std::error::Error, "browser tool failed");
            ToolError::Failed(error.to_string())
        }
        _ => ToolError::Failed(error.to_string()),
    }
}

#[derive(Debug)]
pub(super) struct BrowserTool {
    description: ToolDescription,
    kind: Kind,
    browser: Browser,
}

impl Tool for BrowserTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Other("a web page".to_owned())
    }

    fn consequence<'a>(&'a self, input: &'a Map<String, Value>, agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        consequence(self.kind, &self.browser, input, agent).boxed()
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.run(input, context).boxed()
    }
}

impl BrowserTool {
    pub(super) fn new(kind: Kind, browser: Browser) -> Self {
        Self { description: kind.describe(), kind, browser }
    }

    async fn run(&self, input: Map<String, Value>, context: ToolCallContext) -> Result<ToolOutput, ToolError> {
        let actor = Actor::Agent(context.agent.id.clone());
        let source = &context.untrusted;
        match self.kind {
            Kind::Open => self.open(parse(input)?, &actor, source).await,
            Kind::Act => {
                let action = BrowserAction::parse(input).map_err(|problems| tool_error(&problems.into()))?;
                self.act(action, &actor, source).await
            }
            Kind::Read => self.read(&parse(input)?, &actor, source).await,
            Kind::Screenshot => self.screenshot(parse(input)?, &actor, &context).await,
            Kind::Tabs => self.tabs(parse(input)?, &actor).await,
            Kind::Downloads => Ok(self.downloads(&context)),
        }
    }

    async fn open(&self, input: OpenInput, actor: &Actor, source: &UntrustedSource) -> Result<ToolOutput, ToolError> {
        let tab_id = match input.new_tab {
            true => {
                let tab = self.browser.open_tab(actor, None).await.map_err(|error| tool_error(&error))?;
                Some(tab.info.tab_id)
            }
            false => None,
        };
        self.act(BrowserAction::goto(input.url, tab_id), actor, source).await
    }

    async fn act(
        &self,
        action: BrowserAction,
        actor: &Actor,
        source: &UntrustedSource,
    ) -> Result<ToolOutput, ToolError> {
        let performed = self.browser.act(actor, action).await.map_err(|error| tool_error(&error))?;
        let PerformedAction { outcome, snapshot, restarted } = performed;
        source.record(without_query(&outcome.url));
        let mut output = PageOutput::default();
        if restarted {
            output.note("The browser had ended and was started anew; what was open before is gone.");
        }
        let others = self.browser.status().tabs.saturating_sub(1);
        if others > 0 {
            output.note(&format!("There are {others} other tabs; browser_tabs lists them."));
        }
        output.page(&outcome.url, &outcome.title);
        if let Some(dialog) = outcome.dialog {
            let answer = match dialog.answer {
                None => "open; handle_dialog answers it",
                Some(DialogAnswer::DismissedUnanswered) => "dismissed, because nobody answered it in time",
                Some(DialogAnswer::Accepted | DialogAnswer::Dismissed) => "answered",
            };
            output.quote(&format!("A dialog of the page ({}, {answer}): {}", dialog.kind, dialog.message));
        }
        let snapshot = match snapshot {
            Some(snapshot) => Ok(snapshot),
            None => self.browser.snapshot(actor, Some(&outcome.tab_id), false).await,
        };
        match snapshot {
            Ok(snapshot) if snapshot.element_count == 0 => output.quote("Nothing here can be clicked or filled in."),
            Ok(snapshot) => {
                output.quote(&snapshot.snapshot);
                if snapshot.truncated {
                    output.note("There is more on the page than is listed.");
                }
            }
            // The action has succeeded.
            Err(error) => output.note(&format!("The page after it cannot be shown: {error}")),
        }
        Ok(output.into_output())
    }

    async fn read(&self, input: &ReadInput, actor: &Actor, source: &UntrustedSource) -> Result<ToolOutput, ToolError> {
        if let Some(url) = self.browser.page_url(input.tab_id.as_deref(), actor).await {
            source.record(without_query(&url));
        }
        let page = self.browser.readable_text(actor, input.tab_id.as_deref()).await;
        let page = page.map_err(|error| tool_error(&error))?;
        let wanted = input.max_characters.unwrap_or(DEFAULT_MAX_CHARACTERS);
        let mut output = PageOutput::default();
        let (text, more) = match page.text.char_indices().nth(wanted) {
            Some((end, _)) => (&page.text[..end], page.text[end..].chars().count()),
            None => (page.text.as_str(), 0),
        };
        if more > 0 {
            output.note(&format!("{more} more characters; ask again with a larger max_characters."));
        } else if page.is_truncated {
            output.note("The page is longer than what is read of one.");
        }
        output.quote(&format!("# {}\n{text}", page.title));
        Ok(output.into_output())
    }

    async fn screenshot(
        &self,
        input: ScreenshotInput,
        actor: &Actor,
        context: &ToolCallContext,
    ) -> Result<ToolOutput, ToolError> {
        let area = match (input.selector, input.full_page) {
            (Some(selector), _) => Area::Element(selector),
            (None, true) => Area::FullPage,
            (None, false) => Area::Viewport,
        };
        let picture = Picture { tab_id: input.tab_id, format: ImageFormat::Png, area };
        let bytes = self.browser.screenshot(actor, &picture).await.map_err(|error| tool_error(&error))?;
        let path = input.path.unwrap_or_else(|| format!("{SCREENSHOTS_FOLDER}/{}.png", context.call_id));
        let (length, size) = (bytes.len(), png_size(&bytes));
        let file = self.browser.tools().create_file(&context.workspace, &path, &context.call_id).await?;
        file.append(Bytes::from(bytes)).await?.finish().await?;
        let (width, height) = size.unwrap_or_default();
        Ok(ToolOutput::json(json!({"path": path, "width": width, "height": height, "size_bytes": length})))
    }

    async fn tabs(&self, input: TabsInput, actor: &Actor) -> Result<ToolOutput, ToolError> {
        let named = || input.tab_id.clone().ok_or_else(|| ToolError::Invalid("tab_id is required".to_owned()));
        match input.action {
            TabsAction::List => {}
            TabsAction::Activate => {
                self.browser.activate_tab(actor, &named()?).await.map_err(|error| tool_error(&error))?;
            }
            TabsAction::Close => self.browser.close_tab(&named()?).await.map_err(|error| tool_error(&error))?,
        }
        let mut output = PageOutput::default();
        for tab in self.browser.tabs(actor).await {
            let mark = if tab.is_active { " (the open page)" } else { "" };
            output.quote(&format!("{}{mark}: {} {}", tab.info.tab_id, tab.info.url, tab.info.title));
        }
        Ok(output.into_output())
    }

    fn downloads(&self, context: &ToolCallContext) -> ToolOutput {
        let is_own = |kept: &DownloadEntry| kept.agent.as_ref() == Some(&context.agent.id);
        let view = |kept: DownloadEntry| {
            json!({"name": kept.download.name, "url": kept.download.url, "state": kept.download.state,
                "size_bytes": kept.download.size_bytes, "path": kept.path, "error": kept.download.error})
        };
        let downloads: Vec<Value> = self.browser.downloads().into_iter().filter(is_own).map(view).collect();
        ToolOutput::json(json!({"downloads": downloads}))
    }
}

/// Returns the URL without query and fragment, which may be secret.
fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Reads the size from the PNG header.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((number(16)?, number(20)?))
}
