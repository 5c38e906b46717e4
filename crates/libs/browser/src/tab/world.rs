//! Scripts of ours in a page: in a world of their own, which the page's scripts cannot reach.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FrameId, Tab, TabInfo, World};
use crate::BrowserError;
use crate::cdp::SessionId;
use crate::shared::QUICK;

const SOURCE: &str = concat!("(", include_str!("../page/recording.js"), ")(", include_str!("../page/in_page.js"), ")");
/// Everything that an action holds of a page; let go of after it.
pub(crate) const OBJECTS: &str = "agentd-action";
/// For a title, which a page that hangs does not tell.
const TITLE_LIMIT: Duration = Duration::from_millis(500);

/// An element of a frame.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) frame: FrameId,
    pub(crate) session: SessionId,
    pub(crate) object: String,
}

/// An argument of a function in the page.
#[derive(Debug, Clone)]
pub(crate) enum Argument<'a> {
    Value(Value),
    Element(&'a Element),
}

/// What a call in a page came to.
#[derive(Debug)]
pub(crate) enum Invoked<T> {
    Done(T),
    /// The document or the frame is gone, or is not there yet: look again.
    Gone,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteObject {
    #[serde(default)]
    pub(crate) object_id: Option<String>,
    #[serde(default)]
    pub(crate) value: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluated {
    result: RemoteObject,
    #[serde(default)]
    exception_details: Option<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    text: String,
    #[serde(default)]
    exception: Option<ThrownValue>,
}

#[derive(Deserialize)]
struct ThrownValue {
    #[serde(default)]
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    execution_context_id: i64,
}

#[derive(Deserialize)]
struct Properties {
    result: Vec<Property>,
}

#[derive(Deserialize)]
struct Property {
    #[serde(default)]
    value: Option<RemoteObject>,
}

/// A call of a function of ours; what it returns is held in a group.
struct Call<'a> {
    function: &'a str,
    arguments: &'a [Argument<'a>],
    by_value: bool,
    group: &'a str,
}

#[derive(Deserialize)]
struct Resolved {
    object: RemoteObject,
}

impl Tab {
    /// As it is listed, with the title that the page has now: Chromium does not tell of every change of it.
    pub async fn info_now(&self) -> TabInfo {
        if let Ok(Invoked::Done(title)) = self.invoke::<String>(&self.main_frame(), "title", &[], TITLE_LIMIT).await {
            self.state.send_if_modified(|state| {
                let is_new = state.title != title;
                state.title = title;
                is_new
            });
        }
        self.info()
    }

    /// Calls a function of ours in a frame and reads what it returns.
    pub(crate) async fn invoke<R: DeserializeOwned>(
        &self,
        frame: &FrameId,
        function: &str,
        arguments: &[Argument<'_>],
        limit: Duration,
    ) -> Result<Invoked<R>, BrowserError> {
        match self.invoke_raw(frame, function, arguments, true, limit).await? {
            Invoked::Gone => Ok(Invoked::Gone),
            Invoked::Done(object) => match serde_json::from_value(object.value) {
                Ok(value) => Ok(Invoked::Done(value)),
                Err(error) => {
                    Err(BrowserError::Protocol(format!("the page answered {function} in another form: {error}")))
                }
            },
        }
    }

    /// The same, for what is no value: the element that it returns.
    pub(crate) async fn invoke_raw(
        &self,
        frame: &FrameId,
        function: &str,
        arguments: &[Argument<'_>],
        by_value: bool,
        limit: Duration,
    ) -> Result<Invoked<RemoteObject>, BrowserError> {
        let call = Call { function, arguments, by_value, group: OBJECTS };
        Ok(match self.call_function(frame, &call, limit).await? {
            Invoked::Done((_, object)) => Invoked::Done(object),
            Invoked::Gone => Invoked::Gone,
        })
    }

    /// The elements that a function of ours returns a list of, and the session that they belong to.
    /// Whoever asks lets go of their group.
    pub(crate) async fn invoke_list(
        &self,
        frame: &FrameId,
        function: &str,
        arguments: &[Argument<'_>],
        group: &str,
        limit: Duration,
    ) -> Result<Invoked<(SessionId, Vec<String>)>, BrowserError> {
        let call = Call { function, arguments, by_value: false, group };
        let Invoked::Done((session, list)) = self.call_function(frame, &call, limit).await? else {
            return Ok(Invoked::Gone);
        };
        let parameters = json!({"objectId": list.object_id, "ownProperties": true});
        let properties: Properties = match self.call_in(&session, "Runtime.getProperties", parameters, limit).await {
            Err(error) if is_gone(&error) => return Ok(Invoked::Gone),
            other => other?,
        };
        // A list has its length as well, which is no object.
        let objects = properties.result.into_iter().filter_map(|property| property.value?.object_id);
        Ok(Invoked::Done((session, objects.collect())))
    }

    async fn call_function(
        &self,
        frame: &FrameId,
        call: &Call<'_>,
        limit: Duration,
    ) -> Result<Invoked<(SessionId, RemoteObject)>, BrowserError> {
        let Invoked::Done(world) = self.world(frame).await? else { return Ok(Invoked::Gone) };
        let arguments: Vec<Value> = call
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Value(value) => json!({"value": value}),
                Argument::Element(element) => json!({"objectId": element.object}),
            })
            .collect();
        let parameters = json!({
            "objectId": world.functions,
            "functionDeclaration": format!("function(...a) {{ return this.{}(...a) }}", call.function),
            "arguments": arguments,
            "awaitPromise": true,
            "returnByValue": call.by_value,
            "objectGroup": call.group,
        });
        let called = self.call_in::<Evaluated>(&world.session, "Runtime.callFunctionOn", parameters, limit).await;
        let evaluated = match called {
            Err(error) if is_gone(&error) => {
                self.forget_world(frame);
                return Ok(Invoked::Gone);
            }
            other => other?,
        };
        match evaluated.exception_details {
            None => Ok(Invoked::Done((world.session, evaluated.result))),
            Some(exception) => {
                let description = exception.exception.and_then(|thrown| thrown.description).unwrap_or(exception.text);
                Err(BrowserError::Invalid(description.lines().next().unwrap_or_default().to_owned()))
            }
        }
    }

    /// The element of a node, in our world.
    pub(crate) async fn resolve(&self, frame: &FrameId, node: i64) -> Result<Invoked<Element>, BrowserError> {
        let Invoked::Done(world) = self.world(frame).await? else { return Ok(Invoked::Gone) };
        let parameters = json!({"backendNodeId": node, "executionContextId": world.context, "objectGroup": OBJECTS});
        match self.call_in::<Resolved>(&world.session, "DOM.resolveNode", parameters, QUICK).await {
            Ok(Resolved { object: RemoteObject { object_id: Some(object), .. } }) => {
                Ok(Invoked::Done(Element { frame: Arc::clone(frame), session: world.session, object }))
            }
            Ok(_) => Ok(Invoked::Gone),
            // Either the node or the world is gone; both are looked for again.
            Err(BrowserError::Protocol(_)) => {
                self.forget_world(frame);
                Ok(Invoked::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// The elements of those nodes that are in this frame. Whoever asks releases their group.
    pub(crate) async fn resolve_all(
        &self,
        frame: &FrameId,
        nodes: &[i64],
        group: &str,
        limit: Duration,
    ) -> Result<Vec<Element>, BrowserError> {
        let Invoked::Done(world) = self.world(frame).await? else { return Ok(Vec::new()) };
        let resolved = join_all(nodes.iter().map(|node| {
            let parameters = json!({"backendNodeId": node, "executionContextId": world.context, "objectGroup": group});
            self.call_in::<Resolved>(&world.session, "DOM.resolveNode", parameters, limit)
        }));
        let mut elements = Vec::new();
        for resolved in resolved.await {
            match resolved {
                Ok(Resolved { object: RemoteObject { object_id: Some(object), .. } }) => {
                    elements.push(Element { frame: Arc::clone(frame), session: world.session.clone(), object });
                }
                // It is gone, or in another frame.
                Ok(_) | Err(BrowserError::Protocol(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(elements)
    }

    /// Lets go of what an action held of the page. It is told before this returns, so that it cannot
    /// take what the next action finds; the answer is waited for by nobody.
    pub(crate) fn release_objects(&self, group: &'static str, sessions: &[SessionId]) {
        for session in sessions {
            let connection = self.shared.connection.clone();
            let session = Arc::clone(session);
            let mut released = Box::pin(async move {
                let parameters = json!({"objectGroup": group});
                let method = "Runtime.releaseObjectGroup";
                connection.call::<serde::de::IgnoredAny>(Some(&session), method, parameters, QUICK).await
            });
            if released.as_mut().now_or_never().is_none() {
                tokio::spawn(released);
            }
        }
    }

    async fn world(&self, frame: &FrameId) -> Result<Invoked<World>, BrowserError> {
        let Some(session) = self.session_of(frame) else { return Ok(Invoked::Gone) };
        let known = self.worlds.lock().get(frame).filter(|world| world.session == session).cloned();
        if let Some(world) = known {
            return Ok(Invoked::Done(world));
        }
        let parameters = json!({"frameId": frame, "worldName": "agentd"});
        let created = self.call_in::<Created>(&session, "Page.createIsolatedWorld", parameters, QUICK).await;
        let context = match created {
            Err(BrowserError::Protocol(_)) => return Ok(Invoked::Gone),
            other => other?.execution_context_id,
        };
        let parameters = json!({"expression": SOURCE, "contextId": context});
        let functions = match self.call_in::<Evaluated>(&session, "Runtime.evaluate", parameters, QUICK).await {
            Err(error) if is_gone(&error) => return Ok(Invoked::Gone),
            other => other?.result.object_id,
        };
        let Some(functions) = functions else { return Ok(Invoked::Gone) };
        let world = World { session, context, functions: functions.into() };
        self.worlds.lock().insert(Arc::clone(frame), world.clone());
        Ok(Invoked::Done(world))
    }
}

/// Whether Chromium says that a document, a frame or its session is not there any more.
pub(crate) fn is_gone(error: &BrowserError) -> bool {
    const SAYINGS: [&str; 8] = [
        "Cannot find context",
        "Could not find object",
        "Cannot find object",
        "Execution context was destroyed",
        "Inspected target navigated or closed",
        "Session with given id not found",
        "uniqueContextId not found",
        "Argument should belong to the same JavaScript world",
    ];
    matches!(error, BrowserError::Protocol(message) if SAYINGS.iter().any(|saying| message.contains(saying)))
}

impl From<Value> for Argument<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}
