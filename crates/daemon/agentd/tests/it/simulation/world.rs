//! Simulated external services: receivers of deliveries and notifications, and a model vendor. A request waits
//! until the
//! simulation answers it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_net::{Exchange, ExchangeFuture, NetError};
use parking_lot::Mutex;
use reqwest::{Request, Response};
use serde_json::json;
use tokio::sync::oneshot;

/// Hosts of requests.
pub const SINK: &str = "sink.example";
pub const INBOX: &str = "inbox.example";
pub const MODEL: &str = "model.example";
/// Beginning of every model answer.
pub const MODEL_ANSWER: &str = "Everything is as it should be";

/// Number of a daemon life; each start is a new one.
pub type Life = u64;

/// Outcome of a request from the view of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Open,
    /// The sender received a success.
    Accepted,
    /// The sender received a failure.
    Failed,
    /// The sender disconnected or timed out before it received a response.
    Undelivered,
}

/// Response chosen by the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Success,
    Status(u16),
    /// The request arrived, but the connection broke before the response.
    Lost,
}

#[derive(Debug, Clone)]
pub struct Arrival {
    pub life: Life,
    pub place: String,
    /// Id of the message, identical in every attempt; empty for the model.
    pub key: String,
    pub outcome: Outcome,
}

#[derive(Debug, Default)]
struct State {
    arrivals: Vec<Arrival>,
    open: BTreeMap<usize, oneshot::Sender<Answer>>,
}

/// Shared state; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct World(Arc<Mutex<State>>);

impl World {
    /// Returns the connection of one life to the external services.
    pub fn connection(&self, life: Life) -> Arc<dyn Exchange> {
        Arc::new(Connection { world: self.clone(), life })
    }

    /// Returns the numbers of unanswered requests.
    pub fn open(&self) -> Vec<usize> {
        self.0.lock().open.keys().copied().collect()
    }

    pub fn arrival(&self, number: usize) -> Arrival {
        self.0.lock().arrivals[number].clone()
    }

    /// Returns the requests of one life with a key, in order.
    pub fn sent_by(&self, life: Life, key: &str) -> Vec<Arrival> {
        let state = self.0.lock();
        state.arrivals.iter().filter(|arrival| arrival.life == life && arrival.key == key).cloned().collect()
    }

    /// Returns all requests with a key.
    pub fn received_with_key(&self, key: &str) -> Vec<Arrival> {
        self.0.lock().arrivals.iter().filter(|arrival| arrival.key == key).cloned().collect()
    }

    /// Answers a request.
    pub fn answer(&self, number: usize, answer: Answer) {
        let mut state = self.0.lock();
        let Some(waiting) = state.open.remove(&number) else { return };
        let is_received = waiting.send(answer).is_ok();
        state.arrivals[number].outcome = match answer {
            Answer::Success if is_received => Outcome::Accepted,
            Answer::Status(_) | Answer::Lost if is_received => Outcome::Failed,
            _ => Outcome::Undelivered,
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

    fn abandon(&self, number: usize) {
        let mut state = self.0.lock();
        if state.open.remove(&number).is_some() {
            state.arrivals[number].outcome = Outcome::Undelivered;
        }
    }
}

#[derive(Debug)]
struct Connection {
    world: World,
    life: Life,
}

/// A waiting sender; dropping it abandons the request.
struct Sender {
    world: World,
    number: usize,
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.world.abandon(self.number);
    }
}

impl Exchange for Connection {
    fn exchange(&self, request: Request) -> ExchangeFuture {
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
                Ok(Ok(Answer::Success)) if host == MODEL => {
                    Ok(response(200, "text/event-stream", model_response(number)))
                }
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

/// Returns a model answer in the format of the vendor.
fn model_response(number: usize) -> String {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": "gpt-5.4-mini", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let usage = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
        "model": "gpt-5.4-mini", "choices": [],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}});
    let words =
        [MODEL_ANSWER.to_owned(), format!(", {number}.")].map(|text| chunk(json!({"content": text}), None)).concat();
    format!("{words}{}data: {usage}\n\ndata: [DONE]\n\n", chunk(json!({}), Some("stop")))
}
