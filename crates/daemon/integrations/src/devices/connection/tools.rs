//! The tools that devices provide to agents.

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

/// A tool of a device. A call uses the current connection of the device.
#[derive(Clone)]
struct DeviceTool {
    connections: Connections,
    device: Device,
    tool: Arc<RegisteredTool>,
}

/// The tools of all connected devices, sorted by the slug of the device.
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
            ToolError::Failed(format!("device `{name}` is no longer connected; the tool was not called"))
        })?;
        let registered = connection.registered();
        let Some(tool) = registered.iter().find(|known| known.name == self.tool.name) else {
            return Err(ToolError::Failed(format!("device `{name}` no longer provides this tool")));
        };
        let current = Self { tool: Arc::clone(tool), ..self.clone() };
        if approved.is_some_and(|approved| fingerprint_of(&current) != approved) {
            return Err(ToolError::Failed(format!(
                "device `{name}` changed this tool after the approval was requested, so it was not called; \
                 call it again"
            )));
        }
        Ok(connection)
    }

    async fn call_device(&self, input: Map<String, Value>, context: ToolCallContext) -> Result<ToolOutput, ToolError> {
        let connection = self.connection(context.approved.as_deref())?;
        let (mut call, answer) = PendingCall::begin(connection, context.call_id)?;
        let name = &self.device.name;
        let disconnected = || {
            ToolError::Failed(format!(
                "device `{name}` disconnected before it responded; the call may or may not have taken effect"
            ))
        };
        let answering = async {
            call.send(&self.tool.name, &input).await.map_err(|()| disconnected())?;
            answer.await.map_err(|_| disconnected())
        };
        let answer = tokio::select! {
            biased;
            () = context.cancelled.cancelled() => return Err(ToolError::Cancelled),
            answer = answering => answer,
        };
        call.is_answered = true;
        match answer? {
            Ok(Value::String(text)) => Ok(ToolOutput::text(text)),
            Ok(value) => Ok(ToolOutput::json(value)),
            Err(error) => {
                let error: String = error.chars().take(MAX_ERROR_CHARACTERS).collect();
                Err(ToolError::Failed(format!("device `{name}` returned an error: {error}")))
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
            let mut counter = CallCounter { connections: &self.connections, is_over: false };
            let result = self.call_device(input, context).await;
            counter.record(&result);
            result
        }
        .boxed()
    }
}

/// Counts a call that is dropped before it completes as abandoned.
struct CallCounter<'c> {
    connections: &'c Connections,
    is_over: bool,
}

impl CallCounter<'_> {
    fn record(&mut self, result: &Result<ToolOutput, ToolError>) {
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

impl Drop for CallCounter<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.connections.call_counts().abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A pending call. When it is dropped unanswered, a `tool_cancel` frame is sent to the device.
struct PendingCall {
    connection: Arc<Connection>,
    id: String,
    is_sent: bool,
    is_answered: bool,
}

impl PendingCall {
    fn begin(connection: Arc<Connection>, id: String) -> Result<(Self, oneshot::Receiver<CallAnswer>), ToolError> {
        let (sender, answer) = oneshot::channel();
        {
            let mut calls = connection.calls.lock();
            let name = &connection.device.name;
            if calls.is_closed {
                return Err(ToolError::Failed(format!(
                    "device `{name}` is no longer connected; the tool was not called"
                )));
            }
            if calls.waiting.len() >= MAX_CALLS {
                return Err(ToolError::Failed(format!(
                    "device `{name}` has reached its limit of concurrent calls ({MAX_CALLS}); the tool was not called"
                )));
            }
            calls.waiting.insert(id.clone(), sender);
        }
        Ok((Self { connection, id, is_sent: false, is_answered: false }, answer))
    }

    async fn send(&mut self, tool: &str, input: &Map<String, Value>) -> Result<(), ()> {
        let permit = self.connection.outgoing.reserve().await.map_err(|_| ())?;
        self.is_sent = true;
        permit.send(to_device::tool_call(&self.id, tool, input));
        Ok(())
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let was_waiting = self.connection.calls.lock().waiting.remove(&self.id).is_some();
        if self.is_answered || !self.is_sent || !was_waiting {
            return;
        }
        let (outgoing, frame) = (self.connection.outgoing.clone(), to_device::tool_cancel(&self.id));
        if let Err(tokio::sync::mpsc::error::TrySendError::Full(frame)) = outgoing.try_send(frame) {
            // The queue is full. There are at most [`MAX_CALLS`] such tasks.
            tokio::spawn(async move { outgoing.send(frame).await });
        }
    }
}
