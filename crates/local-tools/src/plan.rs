//! Which tool comes next, and what is known of its input.

use agentd_json_schema::Schema;
use serde_json::{Map, Value};

use crate::fill::Background;
use crate::form::{FormError, Parameter, parameters};
use crate::literals::Message;
use crate::rank::{Fit, Profile, Rarity, THRESHOLD, fit};
use crate::request_kind::mood;
use crate::role::Role;
use crate::words::{Word, actions};

/// More tools than this are not looked at.
const MAX_TOOLS: usize = 128;
/// Longer messages are not requests that a small model could carry out.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// Steps of one request.
const MAX_STEPS: usize = 4;
const MAX_DESCRIPTION: usize = 600;
/// Of validating an input that is at most as long as a message.
const VALIDATION_STEPS: u64 = 100_000;

/// A tool as it is offered to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub input_schema: Value,
}

/// A call that was made since the last message of the person.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    pub name: String,
    pub input: Value,
    /// What it answered.
    pub result: String,
    pub failed: bool,
}

/// One call to be made: the tool, what is known of its input, and what the model has to write.
#[derive(Debug)]
pub struct Plan {
    pub tool: String,
    pub(crate) description: String,
    /// The part of the message that is being carried out.
    pub(crate) request: String,
    pub(crate) values: Map<String, Value>,
    pub(crate) open: Vec<(Parameter, Role)>,
    pub(crate) schema: Schema,
}

impl Plan {
    /// Whether the model has nothing to write.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether `input` satisfies the tool's schema.
    #[must_use]
    pub fn accepts(&self, input: &Value) -> bool {
        self.schema.validate(input, VALIDATION_STEPS).is_ok()
    }
}

struct Candidate<'t> {
    tool: &'t ToolSpec,
    parameters: Vec<Parameter>,
    profile: Profile,
}

/// Why a tool cannot be offered, if it cannot.
#[must_use]
pub fn refusal(tool: &ToolSpec) -> Option<FormError> {
    parameters(&tool.input_schema).and_then(|_| Ok(Schema::new(tool.input_schema.clone())?)).err()
}

/// The next call for `message`, after `past` ones; `None` is to be answered in words.
///
/// A message may ask for several steps ("…, and then …"): each gets one call, in order. After a
/// failed call, and where a call would be the same again, words follow.
#[must_use]
pub fn decide(tools: &[ToolSpec], message: &str, past: &[PastCall]) -> Option<Plan> {
    if message.len() > MAX_MESSAGE_BYTES || past.len() >= MAX_STEPS || past.last().is_some_and(|call| call.failed) {
        return None;
    }
    let candidates: Vec<Candidate<'_>> = tools
        .iter()
        .take(MAX_TOOLS)
        .filter_map(|tool| match parameters(&tool.input_schema) {
            Ok(parameters) => {
                let profile = Profile::new(&tool.name, &tool.description, &parameters);
                Some(Candidate { tool, parameters, profile })
            }
            Err(error) => {
                tracing::debug!(tool = tool.name, %error, "the tool is not offered to the model inside");
                None
            }
        })
        .collect();
    let whole = Message::new(message);
    let steps = steps(&whole);
    if past.is_empty() && steps.len() == 1 {
        return best(&candidates, &whole, Background::default());
    }
    let parts: Vec<Message> = steps.iter().map(|step| Message::new(step)).collect();
    let mut last_path: Option<String> = None;
    let mut done = past.len();
    for step in &parts {
        let background = Background {
            last_path: last_path.as_deref().filter(|_| refers_back(step)),
            last_result: past.last().map(|call| call.result.as_str()).filter(|result| !result.is_empty()),
            may_compose: false,
        };
        if let Some(plan) = best(&candidates, step, background) {
            if done == 0 {
                let same = past.iter().any(|call| {
                    call.name == plan.tool && plan.is_complete() && call.input.as_object() == Some(&plan.values)
                });
                return (!same).then_some(plan);
            }
            done -= 1;
        }
        last_path = step
            .literals
            .iter()
            .rev()
            .find(|literal| literal.is_path())
            .map(|literal| literal.value.clone())
            .or(last_path);
    }
    None
}

/// The tool that fits best, if one fits well enough and its schema holds.
fn best(candidates: &[Candidate<'_>], message: &Message, background: Background<'_>) -> Option<Plan> {
    let rarity = Rarity::of(candidates.iter().map(|candidate| &candidate.profile));
    let mood = mood(message);
    let mut fits: Vec<(&Candidate<'_>, Fit)> = candidates
        .iter()
        .filter_map(|candidate| {
            let fit = fit(&candidate.profile, &candidate.parameters, &rarity, message, mood, background)?;
            tracing::trace!(tool = candidate.tool.name, score = fit.score, ?mood, filled = ?fit.filled, "a tool was weighed");
            Some((candidate, fit))
        })
        .filter(|(_, fit)| fit.score >= THRESHOLD)
        .collect();
    fits.sort_by(|(_, one), (_, other)| other.score.total_cmp(&one.score));
    fits.into_iter().find_map(|(candidate, fit)| {
        let schema = Schema::new(candidate.tool.input_schema.clone())
            .inspect_err(|error| tracing::debug!(tool = candidate.tool.name, %error, "the tool is not offered to the model inside"))
            .ok()?;
        let plan = Plan {
            tool: candidate.tool.name.clone(),
            description: candidate.tool.description.chars().take(MAX_DESCRIPTION).collect(),
            request: message.text.clone(),
            values: fit.filled.values,
            open: fit.filled.open,
            schema,
        };
        (!plan.is_complete() || plan.accepts(&Value::Object(plan.values.clone()))).then_some(plan)
    })
}

/// The parts of a message that come one after the other.
fn steps(message: &Message) -> Vec<String> {
    let mut cuts = Vec::new();
    let words = &message.words;
    for (at, word) in words.iter().enumerate().skip(1) {
        let before = &words[at - 1];
        let joined =
            |one: &Word, other: &Word| message.text[one.end..other.start].chars().all(|c| c == ' ' || c == ',');
        // "tell Bob that we eat and then leave" is one step: only an order begins another.
        let mut next = words[at + 1..].iter().skip_while(|word| word.lower == "please");
        if next.next().is_none_or(|word| actions(&word.stem) == 0) {
            continue;
        }
        let start = match word.lower.as_str() {
            "then" | "afterwards" | "finally" if before.lower == "and" && joined(before, word) => before.start,
            "then" | "afterwards" | "finally" => word.start,
            _ => continue,
        };
        cuts.push((start, word.end));
    }
    let mut parts = Vec::new();
    let mut from = 0;
    for (start, end) in cuts.into_iter().take(MAX_STEPS - 1) {
        if from < start {
            parts.push(message.text[from..start].trim_matches([' ', ',', ';', '\n']).trim_end_matches('.').to_owned());
        }
        from = end;
    }
    parts.push(message.text[from..].trim_matches([' ', ',', '\n']).to_owned());
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { vec![message.text.clone()] } else { parts }
}

fn refers_back(message: &Message) -> bool {
    message.words.iter().any(|word| matches!(word.lower.as_str(), "it" | "that" | "this" | "them"))
}
