//! Effects of the tools outside the agent's own data.

use agentd_engine::agents::Agent;
use agentd_engine::tools::Consequence;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::describe::Kind;
use crate::browser::model::{ActionName, Actor};
use crate::browser::service::Browser;

pub(super) async fn consequence(
    kind: Kind,
    browser: &Browser,
    input: &Map<String, Value>,
    agent: &Agent,
) -> Consequence {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    match kind {
        Kind::Read | Kind::Screenshot | Kind::Tabs | Kind::Downloads => Consequence::Contained,
        // An invalid URL is rejected by the call itself.
        Kind::Open => {
            text("url").and_then(|url| Url::parse(url).ok()).map_or(Consequence::Contained, Consequence::Requests)
        }
        Kind::Act if input.get("action").is_some_and(is_read_only) => Consequence::Contained,
        Kind::Act => {
            let actor = Actor::Agent(agent.id.clone());
            let url = browser.page_url(text("tab_id"), &actor).await.and_then(|url| Url::parse(&url).ok());
            let host = url.and_then(|url| url.host_str().map(str::to_owned));
            host.map_or(Consequence::Acts, Consequence::SendsTo)
        }
    }
}

/// Returns whether an action sends nothing written by the agent to the page and presses nothing.
fn is_read_only(action: &Value) -> bool {
    use ActionName as A;
    ActionName::deserialize(action).is_ok_and(|action| match action {
        A::Hover
        | A::Scroll
        | A::ScrollToElement
        | A::WaitForSelector
        | A::WaitForNavigation
        | A::WaitForNetworkIdle
        | A::GoBack
        | A::GoForward => true,
        A::Goto
        | A::Click
        | A::DoubleClick
        | A::RightClick
        | A::TypeText
        | A::PressKey
        | A::SelectOption
        | A::Check
        | A::Uncheck
        | A::DragAndDrop
        | A::Focus
        | A::Blur
        | A::HandleDialog
        | A::Reload
        | A::UploadFile => false,
    })
}
