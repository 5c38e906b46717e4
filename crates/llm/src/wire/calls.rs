//! Tool calls that arrive in fragments, and the ids under which they go back.

use agentd_base::sha256;
use serde_json::{Map, Value};

use crate::complaint::Complaint;
use crate::{Replay, ToolCall};

const MAX_CALLS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 4 * 1024 * 1024;

/// The calls of one answer, in the order in which the model began them.
pub(super) struct Calls {
    /// Number of messages in the request: makes ids of our own unique within the conversation.
    turn: usize,
    open: Vec<OpenCall>,
    bytes: usize,
    taken: usize,
}

struct OpenCall {
    /// The vendor's index of the call or block.
    index: u64,
    id: String,
    name: String,
    arguments: String,
    replay: Option<Replay>,
}

impl Calls {
    pub(super) fn new(turn: usize) -> Self {
        Self { turn, open: Vec::new(), bytes: 0, taken: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a fragment of the call `index`. Servers that give every call the same index are
    /// understood by their ids.
    pub(super) fn fragment(&mut self, index: u64, id: &str, name: &str, arguments: &str) -> Result<(), Complaint> {
        self.bytes += id.len() + name.len() + arguments.len();
        if self.bytes > MAX_ARGUMENT_BYTES {
            return Err(Complaint::broken_format("the arguments of the tool calls are too long"));
        }
        let is_same = |call: &OpenCall| {
            call.index == index && (id.is_empty() || name.is_empty() || call.id.is_empty() || call.id == id)
        };
        match self.open.iter().rposition(is_same) {
            Some(position) => {
                let call = &mut self.open[position];
                if call.id.is_empty() {
                    id.clone_into(&mut call.id);
                }
                if call.name.is_empty() {
                    name.clone_into(&mut call.name);
                }
                call.arguments.push_str(arguments);
            }
            None if self.open.len() == MAX_CALLS => {
                return Err(Complaint::broken_format("more tool calls at once than any model makes"));
            }
            None => self.open.push(OpenCall {
                index,
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                replay: None,
            }),
        }
        Ok(())
    }

    /// Adds to the arguments of the call `index`; without effect where no call has that index.
    pub(super) fn extend(&mut self, index: u64, arguments: &str) -> Result<(), Complaint> {
        if self.open.iter().any(|call| call.index == index) {
            return self.fragment(index, "", "", arguments);
        }
        Ok(())
    }

    /// What goes back with the call that was begun last.
    pub(super) fn set_last_replay(&mut self, replay: Replay) {
        if let Some(last) = self.open.last_mut() {
            last.replay = Some(replay);
        }
    }

    /// What goes back with the first call of this answer.
    pub(super) fn set_first_replay(&mut self, replay: Replay) {
        if let Some(first) = self.open.first_mut() {
            first.replay = Some(replay);
        }
    }

    /// Hands out the calls, complete.
    pub(super) fn take(&mut self) -> Vec<ToolCall> {
        let calls = std::mem::take(&mut self.open).into_iter().map(|call| {
            let id = if call.id.is_empty() { format!("call_{}_{}", self.turn, self.taken) } else { call.id };
            self.taken += 1;
            ToolCall { id, name: call.name, input: read_arguments(call.arguments), replay: call.replay }
        });
        calls.collect()
    }
}

/// No arguments at all mean the empty object, and a text that holds an object is that object: some models encode
/// theirs twice. What is no JSON stays text.
fn read_arguments(arguments: String) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(&arguments) {
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(inner),
        },
        Ok(value) => value,
        Err(_) => Value::String(arguments),
    }
}

/// `input` as the object that vendors demand when it goes back.
pub(super) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        other => serde_json::json!({ "arguments": other }),
    }
}

/// An id that consists of what `is_allowed` allows and is `1..=longest` long: `id` itself if it
/// is one already, else one derived from it, so that call and answer still match.
pub(super) fn fitting_id(id: &str, longest: usize, shortest: usize, is_allowed: fn(char) -> bool) -> String {
    if (shortest..=longest).contains(&id.len()) && id.chars().all(is_allowed) {
        return id.to_owned();
    }
    let mut derived = hex::encode(sha256(id.as_bytes()));
    derived.truncate(longest);
    derived
}
