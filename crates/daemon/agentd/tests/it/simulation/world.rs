//! The world outside of the daemons: receivers of deliveries and notifications, and a vendor of models. A request that
//! reached it waits until the simulation says what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_net::{Exchange, Exchanging, NetError};
use parking_lot::Mutex;
use reqwest::{Request, Response};
use serde_json::json;
use tokio::sync::oneshot;

/// Where requests go.
pub const SINK: &str = "sink.example";
pub const INBOX: &str = "inbox.example";
pub const MODEL: &str = "model.example";
/// What every answer of the model begins with.
pub const SAID: &str = "Everything is as it should be";

/// Which life of a daemon; each start is a new one.
pub type Life = u64;

/// What became of a request, as far as the world knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Open,
    /// The sender was told that it arrived.
    Accepted,
    /// The sender was told that it failed.
    Failed,
    /// The sender went away, or gave up, before it was told anything.
    Untold,
}

/// What the simulation has a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Success,
    Status(u16),
    /// It arrived, and the connection broke before the sender heard of it.
    Lost,
}

#[derive(Debug, Clone)]
pub struct Arrival {
    pub life: Life,
    pub place: String,
    /// The id of what is sent; the same in every attempt. Of the model: empty.
    pub key: String,
    pub outcome: Outcome,
}

#[derive(Debug, Default)]
struct State {
    arrivals: Vec<Arrival>,
    open: BTreeMap<usize, oneshot::Sender<Answer>>,
}

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct World(Arc<Mutex<State>>);

impl World {
    /// The way to the world that one life of a daemon has.
    pub fn door(&self, life: Life) -> Arc<dyn Exchange> {
        Arc::new(Door { world: self.clone(), life })
    }

    /// Numbers of the requests that wait for an answer.
    pub fn open(&self) -> Vec<usize> {
        self.0.lock().open.keys().copied().collect()
    }

    pub fn arrival(&self, number: usize) -> Arrival {
        self.0.lock().arrivals[number].clone()
    }

    /// What one life has sent under a key, in order.
    pub fn sent_by(&self, life: Life, key: &str) -> Vec<Arrival> {
        let state = self.0.lock();
        state.arrivals.iter().filter(|arrival| arrival.life == life && arrival.key == key).cloned().collect()
    }

    /// Everything that came under a key.
    pub fn came_as(&self, key: &str) -> Vec<Arrival> {
        self.0.lock().arrivals.iter().filter(|arrival| arrival.key == key).cloned().collect()
    }

    /// Lets a request go on.
    pub fn answer(&self, number: usize, answer: Answer) {
        let mut state = self.0.lock();
        let Some(waiting) = state.open.remove(&number) else { return };
        let is_heard = waiting.send(answer).is_ok();
        state.arrivals[number].outcome = match answer {
            Answer::Success if is_heard => Outcome::Accepted,
            Answer::Status(_) | Answer::Lost if is_heard => Outcome::Failed,
            _ => Outcome::Untold,
        };
    }

    fn arrive(&self, life: Life, request: &Request) -> (usize, oneshot::Receiver<Answer>) {
        let (answer, waiting) = oneshot::channel();
        let key = request.headers().get("x-svc-delivery").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let place = request.url().host_str().unwrap_or_default().to_owned();
        let mut state = self.0.lock();
        let number = state.arrivals.len();
        state.arrivals.push(Arrival { life, place, key: key.to_owned(), outcome: Outcome::Open });
        state.open.insert(number, answer);
        (number, waiting)
    }

    fn give_up(&self, number: usize) {
        let mut state = self.0.lock();
        if state.open.remove(&number).is_some() {
            state.arrivals[number].outcome = Outcome::Untold;
        }
    }
}

#[derive(Debug)]
struct Door {
    world: World,
    life: Life,
}

/// The sender still waits, until this is dropped.
struct Sender {
    world: World,
    number: usize,
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.world.give_up(self.number);
    }
}

impl Exchange for Door {
    fn exchange(&self, request: Request) -> Exchanging {
        let (number, waiting) = self.world.arrive(self.life, &request);
        let sender = Sender { world: self.world.clone(), number };
        let (host, limit) = (request.url().host_str().unwrap_or_default().to_owned(), request.timeout().copied());
        Box::pin(async move {
            let broken = |host: String| NetError::Transport { host, source: Arc::new(std::io::Error::other("broken")) };
            let answered = match limit {
                Some(limit) => tokio::time::timeout(limit, waiting).await,
                None => Ok(waiting.await),
            };
            drop(sender);
            match answered {
                Err(_) => Err(NetError::Timeout { host }),
                Ok(Ok(Answer::Success)) if host == MODEL => Ok(response(200, "text/event-stream", said(number))),
                Ok(Ok(Answer::Success)) => Ok(response(204, "text/plain", String::new())),
                Ok(Ok(Answer::Status(status))) => Ok(response(status, "application/json", "{}".to_owned())),
                Ok(Ok(Answer::Lost) | Err(_)) => Err(broken(host)),
            }
        })
    }
}

fn response(status: u16, content_type: &str, body: String) -> Response {
    let response = http::Response::builder().status(status).header("content-type", content_type);
    response.body(body).expect("an answer").into()
}

/// An answer of the model, in the vendor's form.
fn said(number: usize) -> String {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": "gpt-5.4-mini", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let usage = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
        "model": "gpt-5.4-mini", "choices": [],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}});
    let words = [SAID.to_owned(), format!(", {number}.")].map(|text| chunk(json!({"content": text}), None)).concat();
    format!("{words}{}data: {usage}\n\ndata: [DONE]\n\n", chunk(json!({}), Some("stop")))
}
