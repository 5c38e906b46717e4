//! Tool calls that arrive in fragments, and the ids under which they are sent back.

use agentd_base::sha256;
use serde_json::{Map, Value};

use crate::ToolCall;
use crate::complaint::Complaint;

const MAX_CALLS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 4 * 1024 * 1024;

/// The calls of one answer, in the order in which the model began them.
pub(super) struct Calls {
    /// Number of messages in the request: makes generated ids unique within the conversation.
    turn: usize,
    open: Vec<OpenCall>,
    bytes: usize,
}

/// One piece of a call, as OpenAI's format streams them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fragment<'a> {
    pub(super) index: u64,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

struct OpenCall {
    /// The vendor's index of the call or block.
    index: u64,
    id: String,
    name: String,
    arguments: String,
    scan: JsonScan,
    /// The input that came with the beginning of the call, for when no arguments follow.
    initial: Option<Value>,
    opaque: Map<String, Value>,
}

/// A call with what the vendor wants back together with it.
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

    /// Size of what came so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a call. `initial` is its input where the format sends it whole.
    pub(super) fn begin(
        &mut self,
        index: u64,
        id: &str,
        name: &str,
        initial: Option<Value>,
    ) -> Result<&mut Map<String, Value>, Complaint> {
        let initial_bytes = initial.as_ref().map_or(0, |input| input.to_string().len());
        self.reserve(id.len() + name.len() + initial_bytes)?;
        if self.open.len() == MAX_CALLS {
            return Err(Complaint::broken_format("more tool calls at once than any model makes"));
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

    /// Adds a fragment to the call that it continues, or begins a new call. Returns what is kept with that call.
    pub(super) fn add(&mut self, fragment: Fragment<'_>) -> Result<&mut Map<String, Value>, Complaint> {
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

    /// Adds to the arguments of the call `index`; without effect where no call has that index.
    pub(super) fn extend(&mut self, index: u64, arguments: &str) -> Result<(), Complaint> {
        match self.open.iter().rposition(|call| call.index == index) {
            Some(position) => self.append(position, arguments).map(|_| ()),
            None => Ok(()),
        }
    }

    fn append(&mut self, position: usize, arguments: &str) -> Result<&mut Map<String, Value>, Complaint> {
        self.reserve(arguments.len())?;
        let call = &mut self.open[position];
        call.arguments.push_str(arguments);
        call.scan.read(arguments);
        Ok(&mut call.opaque)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Complaint> {
        self.bytes += bytes;
        if self.bytes > MAX_ARGUMENT_BYTES {
            return Err(Complaint::broken_format("the arguments of the tool calls are too long"));
        }
        Ok(())
    }

    /// Hands out the calls, complete.
    pub(super) fn take(&mut self) -> Vec<FinishedCall> {
        let mut finished: Vec<FinishedCall> = Vec::with_capacity(self.open.len());
        let mut previous: Option<OpenCall> = None;
        for call in std::mem::take(&mut self.open) {
            if call.is_void() || previous.as_ref().is_some_and(|previous| call.repeats(previous)) {
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
                let made = ToolCall::new(std::mem::take(&mut id), call.name.as_str(), input);
                finished.push(FinishedCall { call: made, opaque: std::mem::take(&mut opaque) });
            }
            previous = Some(call);
        }
        finished
    }
}

impl OpenCall {
    /// Whether a fragment belongs to this call. Vendors are known that give all calls the same index, leave ids or
    /// indices out, repeat the name in each fragment, or give each fragment a new id.
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

    /// A fragment that said nothing.
    fn is_void(&self) -> bool {
        self.name.is_empty() && self.arguments.is_empty() && self.initial.is_none()
    }

    /// Whether this only closes or repeats the call before it: without an id of its own and without other arguments.
    fn repeats(&self, previous: &Self) -> bool {
        let is_like = self.index == previous.index && self.name == previous.name && self.id.is_empty();
        let says_nothing = self.arguments.trim().is_empty() && self.initial.is_none();
        let is_repeat = !previous.id.is_empty() && self.arguments == previous.arguments;
        is_like && previous.scan.is_complete() && (says_nothing || is_repeat)
    }

    /// The input, or the inputs where the arguments of several calls came as those of one.
    fn inputs(&self) -> Vec<Value> {
        let inputs = read_arguments(&self.arguments);
        match &self.initial {
            Some(initial) if inputs.iter().all(is_empty_object) => read_arguments(&initial.to_string()),
            _ => inputs,
        }
    }
}

/// Follows JSON text, to know when a value is complete.
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

    /// Whether the text so far is an array, an object or a string, to its end.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_string
    }
}

/// Reads arguments. Nothing means the empty object, a text that holds an object is that object (some models encode
/// theirs twice), and what is no JSON stays text. Of several objects behind each other, the empty ones and repetitions
/// are dropped: some proxies send `{}` first, or all arguments once more at the end.
fn read_arguments(arguments: &str) -> Vec<Value> {
    let mut inputs: Vec<Value> = Vec::new();
    for value in serde_json::Deserializer::from_str(arguments).into_iter::<Value>() {
        let Ok(value) = value.map(decode_twice) else { return vec![Value::String(arguments.to_owned())] };
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

fn decode_twice(value: Value) -> Value {
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

/// `input` as the object that vendors demand when it is sent back.
pub(super) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        other => serde_json::json!({ "arguments": other }),
    }
}

/// An id that consists of what `is_allowed` allows and is `shortest..=longest` long: `id` itself if it is one already,
/// else one derived from it, so that call and result still match.
pub(super) fn fitting_id(id: &str, longest: usize, shortest: usize, is_allowed: fn(char) -> bool) -> String {
    if (shortest..=longest).contains(&id.len()) && id.chars().all(is_allowed) {
        return id.to_owned();
    }
    let mut derived = hex::encode(sha256(id.as_bytes()));
    derived.truncate(longest);
    derived
}

#[cfg(test)]
mod tests;
