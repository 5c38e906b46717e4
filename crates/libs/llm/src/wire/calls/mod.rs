//! Assembly of tool calls that arrive in fragments, and the ids that are sent back.

use agentd_base::sha256;
use serde_json::{Map, Value};

use crate::ToolCall;
use crate::vendor_error::VendorError;

const MAX_CALLS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 4 * 1024 * 1024;

/// Tool calls of one answer, in the order in which the model began them.
pub(super) struct Calls {
    /// Number of messages in the request; makes generated ids unique within the conversation.
    turn: usize,
    open: Vec<OpenCall>,
    bytes: usize,
}

/// Fragment of a call, as streamed in OpenAI's format.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fragment<'a> {
    pub(super) index: u64,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

struct OpenCall {
    /// Vendor's index of the call or block.
    index: u64,
    id: String,
    name: String,
    arguments: String,
    scan: JsonScan,
    /// Input sent at the beginning of the call, used if no arguments follow.
    initial: Option<Value>,
    opaque: Map<String, Value>,
}

/// Complete call with the opaque data that the vendor requires back.
pub(super) struct FinishedCall {
    pub(super) call: ToolCall,
    pub(super) opaque: Map<String, Value>,
}

impl Calls {
    pub(super) fn new(turn: usize) -> Self {
        Self { turn, open: Vec::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the size received so far, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a call. `initial` is its input if the format sends it as a whole.
    pub(super) fn begin(
        &mut self,
        index: u64,
        id: &str,
        name: &str,
        initial: Option<Value>,
    ) -> Result<&mut Map<String, Value>, VendorError> {
        let initial_bytes = initial.as_ref().map_or(0, |input| input.to_string().len());
        self.reserve(id.len() + name.len() + initial_bytes)?;
        if self.open.len() == MAX_CALLS {
            return Err(VendorError::broken_format("too many tool calls in one answer"));
        }
        let position = self.open.len();
        self.open.push(OpenCall {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            scan: JsonScan::default(),
            initial,
            opaque: Map::new(),
        });
        Ok(&mut self.open[position].opaque)
    }

    /// Adds a fragment to the call that it continues, or begins a new call. Returns the opaque data of that call.
    pub(super) fn add(&mut self, fragment: Fragment<'_>) -> Result<&mut Map<String, Value>, VendorError> {
        let Some(position) = self.open.iter().rposition(|call| call.is_continued_by(&fragment)) else {
            self.begin(fragment.index, fragment.id, fragment.name, None)?;
            let position = self.open.len() - 1;
            return self.append(position, fragment.arguments);
        };
        let call = &mut self.open[position];
        let (takes_id, takes_name) = (call.id.is_empty(), call.name.is_empty());
        if takes_id {
            fragment.id.clone_into(&mut call.id);
        }
        if takes_name {
            fragment.name.clone_into(&mut call.name);
        }
        self.reserve(fragment.id.len() + fragment.name.len())?;
        self.append(position, fragment.arguments)
    }

    /// Appends to the arguments of the call `index`; no effect if no call has that index.
    pub(super) fn extend(&mut self, index: u64, arguments: &str) -> Result<(), VendorError> {
        match self.open.iter().rposition(|call| call.index == index) {
            Some(position) => self.append(position, arguments).map(|_| ()),
            None => Ok(()),
        }
    }

    fn append(&mut self, position: usize, arguments: &str) -> Result<&mut Map<String, Value>, VendorError> {
        self.reserve(arguments.len())?;
        let call = &mut self.open[position];
        call.arguments.push_str(arguments);
        call.scan.read(arguments);
        Ok(&mut call.opaque)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), VendorError> {
        self.bytes += bytes;
        if self.bytes > MAX_ARGUMENT_BYTES {
            return Err(VendorError::broken_format("the arguments of the tool calls are too long"));
        }
        Ok(())
    }

    /// Returns the completed calls.
    pub(super) fn take(&mut self) -> Vec<FinishedCall> {
        let mut finished: Vec<FinishedCall> = Vec::with_capacity(self.open.len());
        let mut previous: Option<OpenCall> = None;
        for call in std::mem::take(&mut self.open) {
            if call.is_blank() || previous.as_ref().is_some_and(|previous| call.repeats(previous)) {
                continue;
            }
            let (mut id, mut opaque) = (call.id.clone(), call.opaque.clone());
            for input in call.inputs() {
                if finished.len() == MAX_CALLS {
                    break;
                }
                if id.is_empty() {
                    id = format!("call_{}_{}", self.turn, finished.len());
                }
                let tool_call = ToolCall::new(std::mem::take(&mut id), call.name.as_str(), input);
                finished.push(FinishedCall { call: tool_call, opaque: std::mem::take(&mut opaque) });
            }
            previous = Some(call);
        }
        finished
    }
}

impl OpenCall {
    /// Whether a fragment belongs to this call. Some vendors give all calls the same index, omit ids or indices, repeat
    /// the name in each fragment, or give each fragment a new id.
    fn is_continued_by(&self, fragment: &Fragment<'_>) -> bool {
        if self.index != fragment.index {
            return false;
        }
        if fragment.name.is_empty() || self.name.is_empty() {
            return true;
        }
        if !fragment.id.is_empty() && !self.id.is_empty() {
            return self.id == fragment.id;
        }
        self.name == fragment.name && !self.scan.is_complete()
    }

    /// Whether the call has no content.
    fn is_blank(&self) -> bool {
        self.name.is_empty() && self.arguments.is_empty() && self.initial.is_none()
    }

    /// Whether this call only closes or repeats the previous one: without its own id and without other arguments.
    fn repeats(&self, previous: &Self) -> bool {
        let is_same_call = self.index == previous.index && self.name == previous.name && self.id.is_empty();
        let has_no_input = self.arguments.trim().is_empty() && self.initial.is_none();
        let is_repeat = !previous.id.is_empty() && self.arguments == previous.arguments;
        is_same_call && previous.scan.is_complete() && (has_no_input || is_repeat)
    }

    /// Returns the input, or several inputs if the arguments of several calls arrived as those of one.
    fn inputs(&self) -> Vec<Value> {
        let inputs = read_arguments(&self.arguments);
        match &self.initial {
            Some(initial) if inputs.iter().all(is_empty_object) => read_arguments(&initial.to_string()),
            _ => inputs,
        }
    }
}

/// Incremental scanner that detects when a JSON value is complete.
#[derive(Debug, Default)]
struct JsonScan {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl JsonScan {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => (self.is_in_string, self.has_begun) = (!self.is_in_string, true),
                _ if self.is_in_string => {}
                b'{' | b'[' => (self.depth, self.has_begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether the text so far is a complete array, object or string.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_string
    }
}

/// Parses arguments. Empty text is the empty object, a string that contains an object is that object (some models
/// encode it twice), and invalid JSON stays text. Of several consecutive objects, empty ones and repetitions are
/// dropped: some proxies send `{}` first, or repeat all arguments at the end.
fn read_arguments(arguments: &str) -> Vec<Value> {
    let mut inputs: Vec<Value> = Vec::new();
    for value in serde_json::Deserializer::from_str(arguments).into_iter::<Value>() {
        let Ok(value) = value.map(unwrap_double_encoding) else { return vec![Value::String(arguments.to_owned())] };
        match inputs.as_slice() {
            _ if inputs.contains(&value) => {}
            [first] if is_empty_object(first) && value.is_object() => inputs = vec![value],
            [_, ..] if is_empty_object(&value) => {}
            [_, ..] if !value.is_object() || !inputs.iter().all(Value::is_object) => {
                return vec![Value::String(arguments.to_owned())];
            }
            _ if inputs.len() == MAX_CALLS => return vec![Value::String(arguments.to_owned())],
            _ => inputs.push(value),
        }
    }
    if inputs.is_empty() { vec![Value::Object(Map::new())] } else { inputs }
}

fn unwrap_double_encoding(value: Value) -> Value {
    match value {
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(inner),
        },
        value => value,
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// Returns `input` as the object that vendors require when it is sent back.
pub(super) fn to_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        other => serde_json::json!({ "arguments": other }),
    }
}

/// Returns an id that only has characters allowed by `is_allowed` and `shortest..=longest` of them. A valid `id` is
/// returned unchanged, otherwise the id is derived from it, so that call and result still match.
pub(super) fn sanitize_id(id: &str, longest: usize, shortest: usize, is_allowed: fn(char) -> bool) -> String {
    if (shortest..=longest).contains(&id.len()) && id.chars().all(is_allowed) {
        return id.to_owned();
    }
    let mut derived = hex::encode(sha256(id.as_bytes()));
    derived.truncate(longest);
    derived
}

#[cfg(test)]
mod tests;
