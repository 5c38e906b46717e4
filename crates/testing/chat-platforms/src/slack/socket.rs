//! Fake Socket Mode: single-use tickets, and envelopes that are redelivered until acknowledged.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::socket::{FakeSocket, FromSocket, SocketServer, ToSocket};

/// Fault injected into the open sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketFault {
    /// They are dropped without a close frame.
    Drop,
    /// Slack announces that it will close them, and closes them when another one is open.
    Leave,
    /// Socket Mode is disabled.
    Disable,
    /// Nothing is sent or read any more.
    Freeze,
    /// Unacknowledged envelopes are redelivered.
    Repeat,
    /// A ping is sent.
    Ping,
}

#[derive(Debug, Default)]
pub(super) struct Hub {
    tickets: Vec<String>,
    opened: usize,
    open: Vec<Open>,
    /// Envelopes in order of delivery.
    unacknowledged: Vec<Value>,
    envelopes: usize,
    acknowledged: Vec<String>,
    pongs: usize,
    most_open: usize,
    is_disabled: bool,
    problems: Vec<String>,
}

#[derive(Debug)]
struct Open {
    number: usize,
    client: UnboundedSender<ToSocket>,
    is_leaving: bool,
}

#[derive(Debug)]
pub(super) struct Sockets {
    server: SocketServer,
    hub: Arc<Mutex<Hub>>,
}

impl Sockets {
    pub(super) async fn start() -> io::Result<Self> {
        let hub = Arc::<Mutex<Hub>>::default();
        let shared = Arc::clone(&hub);
        let server = SocketServer::start(move |socket| serve(&shared, socket)).await?;
        Ok(Self { server, hub })
    }

    /// Returns a single-use URL.
    pub(super) fn address(&self) -> String {
        let mut hub = self.hub.lock();
        let ticket = format!("ticket={}", hub.tickets.len() + hub.opened + 1);
        hub.tickets.push(ticket.clone());
        format!("ws://{}/link/?{ticket}", self.server.address)
    }

    pub(super) fn push(&self, kind: &str, payload: &Value) {
        let mut hub = self.hub.lock();
        hub.envelopes += 1;
        let envelope = json!({
            "envelope_id": format!("envelope-{}", hub.envelopes), "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api",
        });
        hub.unacknowledged.push(envelope.clone());
        if let Some(open) = hub.open.last() {
            let _ = open.client.send(ToSocket::Send(envelope));
        }
    }

    pub(super) fn fault(&self, fault: SocketFault) {
        let mut hub = self.hub.lock();
        let Hub { open, unacknowledged, is_disabled, .. } = &mut *hub;
        *is_disabled |= fault == SocketFault::Disable;
        for socket in open {
            let orders = match fault {
                SocketFault::Drop => vec![ToSocket::Drop],
                SocketFault::Leave => {
                    socket.is_leaving = true;
                    vec![ToSocket::Send(disconnect_message("warning"))]
                }
                SocketFault::Disable => {
                    vec![ToSocket::Send(disconnect_message("link_disabled")), ToSocket::Close(1000)]
                }
                SocketFault::Freeze => vec![ToSocket::Freeze],
                SocketFault::Repeat => unacknowledged.iter().cloned().map(ToSocket::Send).collect(),
                SocketFault::Ping => vec![ToSocket::Ping],
            };
            for order in orders {
                let _ = socket.client.send(order);
            }
        }
    }

    pub(super) fn acknowledged(&self) -> Vec<String> {
        self.hub.lock().acknowledged.clone()
    }

    /// Returns the number of open sockets and its maximum so far.
    pub(super) fn open(&self) -> (usize, usize) {
        let hub = self.hub.lock();
        (hub.open.len(), hub.most_open)
    }

    pub(super) fn pongs(&self) -> usize {
        self.hub.lock().pongs
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.hub.lock().problems.clone()
    }
}

fn disconnect_message(reason: &str) -> Value {
    json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})
}

fn serve(shared: &Arc<Mutex<Hub>>, mut socket: FakeSocket) {
    let mut hub = shared.lock();
    let send = |order| drop(socket.client.send(order));
    let Some(index) = hub.tickets.iter().position(|ticket| *ticket == socket.query) else {
        hub.problems.push("a ticket that was never given, or is used up".to_owned());
        return send(ToSocket::Close(1008));
    };
    hub.tickets.remove(index);
    hub.opened += 1;
    let number = hub.opened;
    if hub.is_disabled {
        send(ToSocket::Send(disconnect_message("link_disabled")));
        return send(ToSocket::Close(1000));
    }
    send(ToSocket::Send(json!({
        "type": "hello", "num_connections": hub.open.len() + 1, "connection_info": {"app_id": "A1"},
        "debug_info": {"host": "applink-1", "approximate_connection_time": 3600},
    })));
    for open in hub.open.iter().filter(|open| open.is_leaving) {
        let _ = open.client.send(ToSocket::Close(1000));
    }
    for envelope in &hub.unacknowledged {
        send(ToSocket::Send(envelope.clone()));
    }
    hub.open.push(Open { number, client: socket.client.clone(), is_leaving: false });
    hub.most_open = hub.most_open.max(hub.open.len());
    drop(hub);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        while let Some(event) = socket.events.recv().await {
            let mut hub = shared.lock();
            match event {
                FromSocket::Message(message) => hub.acknowledge(&message),
                FromSocket::Pong => hub.pongs += 1,
                FromSocket::Disconnected(_) => hub.open.retain(|open| open.number != number),
            }
        }
    });
}

impl Hub {
    /// Handles an acknowledgement, the only message that clients send.
    fn acknowledge(&mut self, message: &Value) {
        let id = message["envelope_id"].as_str().unwrap_or_default();
        let known = self.unacknowledged.iter().position(|envelope| envelope["envelope_id"] == *id);
        match known {
            Some(index) => {
                self.unacknowledged.remove(index);
                self.acknowledged.push(id.to_owned());
            }
            None if self.acknowledged.iter().any(|known| known == id) => {}
            None => self.problems.push(format!("{message} acknowledges nothing")),
        }
    }
}
