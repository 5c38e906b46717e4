//! Fills a tool's parameters from what stands in a message.
//!
//! Each parameter has a role, read off its name, description and type. Roles are filled in an order
//! in which the surest take their piece of the message first, and no piece is used twice. What is
//! required and can be made up from the request (a text, a program) is left open for the model; what
//! is required and must come from the person is missing.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::extract;
use crate::form::{Parameter, Shape};
use crate::literals::{Kind, Message};
use crate::role::{Role, role};

/// How sure a filled form makes that its tool is meant.
mod evidence {
    pub(crate) const URL: f32 = 3.0;
    pub(crate) const CALCULATION: f32 = 2.5;
    pub(crate) const UNITS: f32 = 3.0;
    pub(crate) const REPLACEMENT: f32 = 2.5;
    pub(crate) const PATH: f32 = 1.2;
    pub(crate) const CODE: f32 = 1.5;
    pub(crate) const PERSON: f32 = 0.8;
    pub(crate) const PLACE: f32 = 1.0;
    pub(crate) const TEXT: f32 = 0.5;
    pub(crate) const QUOTED_QUERY: f32 = 1.0;
    /// Any word behind "in" or "of" is a guess.
    pub(crate) const GUESS: f32 = -1.0;
    pub(crate) const CHOICE: f32 = 0.4;
    pub(crate) const COUNT: f32 = 0.4;
}

/// What is known from outside the message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Background<'a> {
    /// A path that was named earlier in the same request.
    pub(crate) last_path: Option<&'a str>,
    /// What the last call answered.
    pub(crate) last_result: Option<&'a str>,
    /// Whether the model may make something up: only when it was told to do something.
    pub(crate) may_compose: bool,
}

/// A form as far as the message fills it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filled {
    pub(crate) values: Map<String, Value>,
    /// For the model to write.
    pub(crate) open: Vec<(Parameter, Role)>,
    /// Required, and nowhere to be had.
    pub(crate) missing: usize,
    pub(crate) evidence: f32,
    /// The tool has a parameter for a path, so that "in …" may name one.
    pub(crate) has_path: bool,
    used: Vec<Range<usize>>,
}

impl Filled {
    pub(crate) fn is_free(&self, range: &Range<usize>) -> bool {
        !self.used.iter().any(|used| used.start < range.end && range.start < used.end)
    }

    /// Where the first piece begins that was taken behind `at`.
    pub(crate) fn next_used(&self, at: usize) -> Option<usize> {
        self.used.iter().map(|used| used.start).filter(|&start| start >= at).min()
    }

    fn take(&mut self, parameter: &Parameter, value: Value, range: Option<Range<usize>>, evidence: f32) {
        self.values.insert(parameter.name.clone(), value);
        self.used.extend(range);
        self.evidence += evidence;
    }

    /// A number that goes with a parameter.
    pub(crate) fn put_number(&mut self, parameter: &Parameter, value: Value, range: Range<usize>) {
        self.take(parameter, value, Some(range), evidence::COUNT);
    }

    /// What stands in the message and this tool has no use for.
    pub(crate) fn unused(&self, message: &Message) -> f32 {
        let mut weight = 0.0;
        for literal in message.literals.iter().filter(|literal| self.is_free(&literal.range)) {
            weight += match literal.kind {
                Kind::Url if !literal.quoted => 2.5,
                Kind::Fence => 2.0,
                Kind::File | Kind::Folder | Kind::Path if !literal.quoted => 1.5,
                _ if literal.quoted => 0.5,
                _ => 0.0,
            };
        }
        if let Some(sum) = super::arithmetic::calculation(&message.text)
            && !sum.doubtful
            && self.is_free(&sum.range)
            && !message.literals.iter().any(|literal| {
                literal.quoted && literal.range.start <= sum.range.start && sum.range.end <= literal.range.end
            })
        {
            weight += 1.0;
        }
        weight
    }
}

pub(crate) fn fill(parameters: &[Parameter], message: &Message, background: Background<'_>) -> Filled {
    let mut filled = Filled::default();
    let mut roles: Vec<(&Parameter, Role)> = parameters.iter().map(|parameter| (parameter, role(parameter))).collect();
    roles.sort_by_key(|(_, role)| *role);
    filled.has_path = roles.iter().any(|(_, role)| matches!(role, Role::Path(_)));
    pairs(&roles, message, &mut filled);
    for (parameter, role) in &roles {
        if !filled.values.contains_key(&parameter.name) {
            one(parameter, *role, message, background, &mut filled);
        }
    }
    extract::numbers(&roles, message, &mut filled);
    for (parameter, role) in roles {
        if filled.values.contains_key(&parameter.name) || !parameter.required {
            continue;
        }
        let may_be_made_up = matches!(role, Role::Content | Role::Code | Role::Command | Role::Other)
            && matches!(parameter.shape, Shape::Text { .. });
        if let Some(default) = &parameter.default {
            filled.values.insert(parameter.name.clone(), default.clone());
        } else if may_be_made_up && background.may_compose {
            filled.open.push((parameter.clone(), role));
        } else if matches!(&parameter.shape, Shape::Boolean) {
            filled.values.insert(parameter.name.clone(), Value::Bool(false));
        } else if matches!(&parameter.shape, Shape::Choice(values) if values.len() == 1) {
            if let Shape::Choice(values) = &parameter.shape {
                filled.values.insert(parameter.name.clone(), values[0].clone());
            }
        } else if matches!(&parameter.shape, Shape::Choice(_) | Shape::List { .. } | Shape::Record(_))
            && background.may_compose
        {
            filled.open.push((parameter.clone(), role));
        } else {
            filled.missing += 1;
        }
    }
    filled
}

/// Parameters that are only understood together.
fn pairs(roles: &[(&Parameter, Role)], message: &Message, filled: &mut Filled) {
    let with = |wanted: Role| roles.iter().find(|(_, role)| *role == wanted).map(|(parameter, _)| *parameter);
    if let (Some(old), Some(new)) = (with(Role::Old), with(Role::New))
        && let Some((before, after)) = super::phrases::replacement(message)
    {
        filled.take(old, before.text.into(), Some(before.range), evidence::REPLACEMENT);
        filled.take(new, after.text.into(), Some(after.range), 0.0);
    }
    if let (Some(from), Some(to)) = (with(Role::FromUnit), with(Role::ToUnit))
        && let Some(units) = extract::units(message, from, to)
    {
        if let Some(quantity) = roles.iter().find(|(parameter, role)| *role == Role::Number && parameter.required) {
            let number = extract::number_value(&quantity.0.shape, units.value);
            if let Some(number) = number {
                filled.take(quantity.0, number, Some(units.range.clone()), 0.0);
            }
        }
        filled.take(from, units.from, None, evidence::UNITS);
        filled.take(to, units.to, Some(units.range), 0.0);
    }
}

fn one(parameter: &Parameter, role: Role, message: &Message, background: Background<'_>, filled: &mut Filled) {
    if let Shape::Choice(values) = &parameter.shape {
        if let Some((value, range)) = extract::choice(values, message) {
            filled.take(parameter, value, range, evidence::CHOICE);
        }
        return;
    }
    if parameter.shape == Shape::Boolean {
        if extract::flag(parameter, message) {
            filled.take(parameter, Value::Bool(true), None, 0.0);
        }
        return;
    }
    if let Shape::List { item, .. } = &parameter.shape {
        let quoted = extract::all_quoted(message);
        if matches!(**item, Shape::Text { .. }) && !quoted.is_empty() {
            let ranges = quoted.iter().map(|piece| piece.range.clone());
            filled.used.extend(ranges);
            let texts = quoted.into_iter().map(|piece| piece.text.into()).collect();
            filled.take(parameter, Value::Array(texts), None, evidence::TEXT);
        }
        return;
    }
    if !matches!(parameter.shape, Shape::Text { .. }) {
        return;
    }
    let found = match role {
        Role::Url => extract::url(message, filled).map(|piece| (piece, evidence::URL)),
        Role::Email => extract::email(message, filled).map(|piece| (piece, evidence::PERSON)),
        Role::Path(wants) => {
            extract::path(message, filled, wants, parameter.required).map(|piece| (piece, evidence::PATH))
        }
        Role::Code => extract::code(message, filled).map(|piece| (piece, evidence::CODE)),
        Role::Command => extract::command(message, filled).map(|piece| (piece, evidence::CODE)),
        Role::Expression => extract::expression(message, filled).map(|piece| (piece, evidence::CALCULATION)),
        Role::Person => extract::person(message, filled).map(|piece| (piece, evidence::PERSON)),
        Role::Language => extract::language(message, filled).map(|piece| (piece, evidence::PLACE)),
        Role::Query => extract::query(message, filled).map(|piece| {
            let literal = message.literals.iter().any(|literal| literal.range == piece.range);
            (piece, if literal { evidence::QUOTED_QUERY } else { evidence::TEXT })
        }),
        Role::Content => extract::content(message, filled).map(|piece| (piece, evidence::TEXT)),
        Role::Place => extract::place(message, filled).map(|piece| (piece, evidence::PLACE)),
        Role::FromUnit | Role::ToUnit | Role::Old | Role::New | Role::Number => None,
        Role::Other => extract::labelled(parameter, message, filled).map(|piece| (piece, evidence::TEXT)),
    };
    let found = found.or_else(|| match role {
        Role::Content if parameter.required => extract::object(message, filled).map(|piece| (piece, 0.0)),
        Role::Other if parameter.required => extract::attribute(message, filled).map(|piece| {
            let named = piece.text.starts_with(char::is_uppercase);
            (piece, if named { 0.0 } else { evidence::GUESS })
        }),
        _ => None,
    });
    if let Some((piece, evidence)) = found {
        let (text, range) = (piece.text, piece.range);
        let is_pronoun = matches!(
            text.to_lowercase().as_str(),
            "it" | "that" | "this" | "the result" | "the text" | "the output" | "the answer"
        );
        if role == Role::Content && is_pronoun {
            if let Some(result) = background.last_result {
                filled.take(parameter, result.into(), Some(range), evidence);
            }
            return;
        }
        filled.take(parameter, text.into(), Some(range), evidence);
    } else if let (Role::Path(_), Some(path), true) = (role, background.last_path, parameter.required) {
        filled.take(parameter, path.into(), None, evidence::COUNT);
    }
}
