//! The tools that a device lends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentd_engine::tools::{
    Author, Share, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, fingerprint_of,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::registered::RegisteredTool;
use super::registry::Connections;
use super::{CallAnswer, Connection, MAX_CALLS};
use crate::devices::model::{Device, to_device};

const MAX_ERROR_CHARACTERS: usize = 4_000;

/// A device's tool in the hands of an agent. It asks whichever connection the device has then.
#[derive(Clone)]
struct DeviceTool {
    connections: Connections,
    device: Device,
    tool: Arc<RegisteredTool>,
}

/// The tools of every connected device, in an order that stays the same.
pub(crate) fn device_tools(connections: &Connections) -> Vec<Arc<dyn Tool>> {
    let mut open = connections.open();
    open.sort_unstable_by(|a, b| a.device.slug.cmp(&b.device.slug));
    let of_one = |connection: Arc<Connection>| {
        let tools = connection.registered();
        let tool = |tool: &Arc<RegisteredTool>| {
            let (connections, device) = (connections.clone(), connection.device.clone());
            Arc::new(DeviceTool { connections, device, tool: Arc::clone(tool) }) as Arc<dyn Tool>
        };
        tools.iter().map(tool).collect::<Vec<_>>()
    };
    open.into_iter().flat_map(of_one).collect()
}

impl std::fmt::Debug for DeviceTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DeviceTool").field(&self.tool.description.name).finish()
    }
}

impl DeviceTool {
    fn connection(&self, approved: Option<&str>) -> Result<Arc<Connection>, ToolError> {
        let name = &self.device.name;
        let connection = self.connections.find(&self.device.id).ok_or_else(|| {
            ToolError::Failed(format!("the device `{name}` is not connected any more; nothing was run"))
        })?;
        let registered = connection.registered();
        let Some(tool) = registered.iter().find(|known| known.name == self.tool.name) else {
            return Err(ToolError::Failed(format!("the device `{name}` does not offer this tool any more")));
        };
        let current = Self { tool: Arc::clone(tool), ..self.clone() };
        if approved.is_some_and(|approved| fingerprint_of(&current) != approved) {
            return Err(ToolError::Failed(format!(
                "the device `{name}` changed this tool after its owner was asked, so nothing ran; ask for it again"
            )));
        }
        Ok(connection)
    }

    async fn ask(&self, input: Map<String, Value>, context: ToolCallContext) -> Result<ToolOutput, ToolError> {
        let connection = self.connection(context.approved.as_deref())?;
        let (mut waiting, answer) = Waiting::begin(connection, context.call_id)?;
        let name = &self.device.name;
        let gone = || {
            ToolError::Failed(format!(
                "the device `{name}` went away before it answered; whether the call had its effect is not known"
            ))
        };
        let asking = async {
            waiting.send(&self.tool.name, &input).await.map_err(|()| gone())?;
            answer.await.map_err(|_| gone())
        };
        let answer = tokio::select! {
            biased;
            () = context.cancelled.cancelled() => return Err(ToolError::Cancelled),
            answer = asking => answer,
        };
        waiting.is_answered = true;
        match answer? {
            Ok(Value::String(text)) => Ok(ToolOutput::text(text)),
            Ok(value) => Ok(ToolOutput::json(value)),
            Err(error) => {
                let error: String = error.chars().take(MAX_ERROR_CHARACTERS).collect();
                Err(ToolError::Failed(format!("the device `{name}` answered: {error}")))
            }
        }
    }
}

impl Tool for DeviceTool {
    fn description(&self) -> &ToolDescription {
        &self.tool.description
    }

    fn share(&self) -> Share<'_> {
        Share::Owner(self.device.id.as_str())
    }

    fn description_author(&self) -> Author {
        Author::Other(format!("the device {} ({})", json!(self.device.name), json!(self.device.platform)))
    }

    fn output_author(&self) -> Author {
        Author::Other(format!("the device {}", json!(self.device.name)))
    }

    fn implementation(&self) -> Option<Value> {
        Some(json!(["device", self.device.id, self.tool.name]))
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let mut counted = Counted { connections: &self.connections, is_over: false };
            let result = self.ask(input, context).await;
            counted.over(&result);
            result
        }
        .boxed()
    }
}

/// Counts a call that is dropped before its end as abandoned.
struct Counted<'c> {
    connections: &'c Connections,
    is_over: bool,
}

impl Counted<'_> {
    fn over(&mut self, result: &Result<ToolOutput, ToolError>) {
        let counts = self.connections.call_counts();
        let count = match result {
            Ok(_) => &counts.done,
            Err(ToolError::Cancelled) => return,
            Err(_) => &counts.failed,
        };
        self.is_over = true;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.connections.call_counts().abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A call that a device has not answered. Dropping it tells the device that nobody waits.
struct Waiting {
    connection: Arc<Connection>,
    id: String,
    is_sent: bool,
    is_answered: bool,
}

impl Waiting {
    fn begin(connection: Arc<Connection>, id: String) -> Result<(Self, oneshot::Receiver<CallAnswer>), ToolError> {
        let (sender, answer) = oneshot::channel();
        {
            let mut calls = connection.calls.lock();
            let name = &connection.device.name;
            if calls.is_over {
                return Err(ToolError::Failed(format!(
                    "the device `{name}` is not connected any more; nothing was run"
                )));
            }
            if calls.waiting.len() >= MAX_CALLS {
                return Err(ToolError::Failed(format!(
                    "the device `{name}` works on {MAX_CALLS} calls already; nothing was run"
                )));
            }
            calls.waiting.insert(id.clone(), sender);
        }
        Ok((Self { connection, id, is_sent: false, is_answered: false }, answer))
    }

    async fn send(&mut self, tool: &str, input: &Map<String, Value>) -> Result<(), ()> {
        let place = self.connection.outgoing.reserve().await.map_err(|_| ())?;
        self.is_sent = true;
        place.send(to_device::tool_call(&self.id, tool, input));
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let was_waiting = self.connection.calls.lock().waiting.remove(&self.id).is_some();
        if self.is_answered || !self.is_sent || !was_waiting {
            return;
        }
        let (outgoing, frame) = (self.connection.outgoing.clone(), to_device::tool_cancel(&self.id));
        if let Err(tokio::sync::mpsc::error::TrySendError::Full(frame)) = outgoing.try_send(frame) {
            // It reads slowly: there are at most as many of these as calls.
            tokio::spawn(async move { outgoing.send(frame).await });
        }
    }
}
