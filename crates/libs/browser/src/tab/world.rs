//! Page functions in an isolated world, which scripts of the page cannot access.

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
use crate::shared::COMMAND_TIMEOUT;

const SOURCE: &str = concat!("(", include_str!("../page/recording.js"), ")(", include_str!("../page/in_page.js"), ")");
/// Object group of all remote objects held by an action, released after it.
pub(crate) const ACTION_OBJECT_GROUP: &str = "agentd-action";
/// Time limit for reading the title, which a hanging page does not return.
const TITLE_LIMIT: Duration = Duration::from_millis(500);

/// Element of a frame.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) frame: FrameId,
    pub(crate) session: SessionId,
    pub(crate) object: String,
}

/// Argument of a page function.
#[derive(Debug, Clone)]
pub(crate) enum Argument<'a> {
    Value(Value),
    Element(&'a Element),
}

/// Result of a call in a page.
#[derive(Debug)]
pub(crate) enum Invoked<T> {
    Done(T),
    /// The document or frame is gone or not ready yet; the caller should look it up again.
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

/// Call of a page function, whose result belongs to an object group.
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
    /// Returns the tab info with the current title, since Chromium does not report every title change.
    pub async fn refresh_info(&self) -> TabInfo {
        if let Ok(Invoked::Done(title)) = self.invoke::<String>(&self.main_frame(), "title", &[], TITLE_LIMIT).await {
            self.state.send_if_modified(|state| {
                let is_new = state.title != title;
                state.title = title;
                is_new
            });
        }
        self.info()
    }

    /// Calls a page function in a frame and parses its result.
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
                    Err(BrowserError::Protocol(format!("the page returned an unknown result for {function}: {error}")))
                }
            },
        }
    }

    /// Calls a page function and returns the raw remote object.
    pub(crate) async fn invoke_raw(
        &self,
        frame: &FrameId,
        function: &str,
        arguments: &[Argument<'_>],
        by_value: bool,
        limit: Duration,
    ) -> Result<Invoked<RemoteObject>, BrowserError> {
        let call = Call { function, arguments, by_value, group: ACTION_OBJECT_GROUP };
        Ok(match self.call_function(frame, &call, limit).await? {
            Invoked::Done((_, object)) => Invoked::Done(object),
            Invoked::Gone => Invoked::Gone,
        })
    }

    /// Calls a page function that returns a list of elements. Returns their session and object IDs. The caller releases
    /// the group.
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
        // The `length` property of the list is not an object.
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

    /// Resolves a node to an element in the isolated world.
    pub(crate) async fn resolve(&self, frame: &FrameId, node: i64) -> Result<Invoked<Element>, BrowserError> {
        let Invoked::Done(world) = self.world(frame).await? else { return Ok(Invoked::Gone) };
        let parameters =
            json!({"backendNodeId": node, "executionContextId": world.context, "objectGroup": ACTION_OBJECT_GROUP});
        match self.call_in::<Resolved>(&world.session, "DOM.resolveNode", parameters, COMMAND_TIMEOUT).await {
            Ok(Resolved { object: RemoteObject { object_id: Some(object), .. } }) => {
                Ok(Invoked::Done(Element { frame: Arc::clone(frame), session: world.session, object }))
            }
            Ok(_) => Ok(Invoked::Gone),
            // Either the node or the world is gone; the caller looks up both again.
            Err(BrowserError::Protocol(_)) => {
                self.forget_world(frame);
                Ok(Invoked::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// Resolves the nodes that are in this frame. The caller releases the group.
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
                // The node is gone, or in another frame.
                Ok(_) | Err(BrowserError::Protocol(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(elements)
    }

    /// Releases an object group. The command is queued before this returns, so that it cannot release objects of the
    /// next action. The response is not awaited.
    pub(crate) fn release_objects(&self, group: &'static str, sessions: &[SessionId]) {
        for session in sessions {
            let connection = self.shared.connection.clone();
            let session = Arc::clone(session);
            let mut released = Box::pin(async move {
                let parameters = json!({"objectGroup": group});
                let method = "Runtime.releaseObjectGroup";
                connection.call::<serde::de::IgnoredAny>(Some(&session), method, parameters, COMMAND_TIMEOUT).await
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
        let created = self.call_in::<Created>(&session, "Page.createIsolatedWorld", parameters, COMMAND_TIMEOUT).await;
        let context = match created {
            Err(BrowserError::Protocol(_)) => return Ok(Invoked::Gone),
            other => other?.execution_context_id,
        };
        let parameters = json!({"expression": SOURCE, "contextId": context});
        let functions = match self.call_in::<Evaluated>(&session, "Runtime.evaluate", parameters, COMMAND_TIMEOUT).await
        {
            Err(error) if is_gone(&error) => return Ok(Invoked::Gone),
            other => other?.result.object_id,
        };
        let Some(functions) = functions else { return Ok(Invoked::Gone) };
        let world = World { session, context, functions: functions.into() };
        self.worlds.lock().insert(Arc::clone(frame), world.clone());
        Ok(Invoked::Done(world))
    }
}

/// Whether Chromium reports that a document, frame or session no longer exists.
pub(crate) fn is_gone(error: &BrowserError) -> bool {
    const MESSAGES: [&str; 8] = [
        "Cannot find context",
        "Could not find object",
        "Cannot find object",
        "Execution context was destroyed",
        "Inspected target navigated or closed",
        "Session with given id not found",
        "uniqueContextId not found",
        "Argument should belong to the same JavaScript world",
    ];
    matches!(error, BrowserError::Protocol(message) if MESSAGES.iter().any(|known| message.contains(known)))
}

impl From<Value> for Argument<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}
