//! Numbers, units, choices, switches.

use std::ops::Range;

use serde_json::{Value, json};

use crate::arithmetic::calculation;
use crate::fill::Filled;
use crate::form::{Parameter, Shape, truncate};
use crate::literals::Message;
use crate::phrases::{Piece, Quantity, quantities};
use crate::role::Role;
use crate::words::{is_filler, stem, unit, words};

pub(crate) fn expression(message: &Message, filled: &Filled) -> Option<Piece> {
    let found = calculation(&message.text)?;
    let inside_literal = message.literals.iter().any(|literal| {
        literal.is_path() && literal.range.start <= found.range.start && found.range.end <= literal.range.end
    });
    // "12-4" alone is as likely a range of pages.
    let asked = !found.doubtful
        || message.words.iter().any(|word| {
            matches!(word.lower.as_str(), "calculate" | "compute" | "evaluate" | "solve")
                || word.lower == "what's"
                || word.lower == "what"
        });
    (asked && !inside_literal && filled.is_free(&found.range))
        .then_some(Piece { text: found.expression, range: found.range })
}

/// The value of an enumeration that the message names.
pub(crate) fn choice(values: &[Value], message: &Message) -> Option<(Value, Option<Range<usize>>)> {
    let mut best: Option<(usize, Value, Option<Range<usize>>)> = None;
    for value in values {
        let name = match value {
            Value::String(text) => text.to_lowercase().replace(['_', '-'], " "),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        let wanted: Vec<String> = words(&name).into_iter().map(|word| word.stem).collect();
        let at = message.words.windows(wanted.len().max(1)).find(|run| run.iter().map(|word| &word.stem).eq(&wanted));
        // A word that does no other work in the sentence: "text Anna" names no channel "text".
        let is_verb = at.is_some_and(|run| run[0].start == 0);
        if let Some(run) = at.filter(|_| !is_verb && !wanted.is_empty())
            && best.as_ref().is_none_or(|(length, ..)| wanted.len() > *length)
        {
            let range = run.first().map(|word| word.start)..run.last().map(|word| word.end);
            let range = range.start.zip(range.end).map(|(start, end)| start..end);
            best = Some((wanted.len(), value.clone(), range));
        }
    }
    best.map(|(_, value, range)| (value, range))
}

/// Whether a switch is asked for: one of its telling words is there.
pub(crate) fn flag(parameter: &Parameter, message: &Message) -> bool {
    const ALL: &[&str] = &["all", "every", "each", "everywhere"];
    let says_all = parameter.stems.iter().any(|word| matches!(word.as_str(), "all" | "global"));
    if says_all && message.words.iter().any(|word| ALL.contains(&word.lower.as_str())) {
        return true;
    }
    let telling = |word: &&String| {
        !is_filler(word) && !matches!(word.as_str(), "is" | "has" | "enabl" | "replac" | "includ" | "us")
    };
    let telling: Vec<&String> = parameter.stems.iter().filter(telling).collect();
    !telling.is_empty() && telling.iter().all(|wanted| message.words.iter().any(|word| word.stem == **wanted))
}

#[derive(Debug)]
pub(crate) struct Units {
    pub(crate) value: f64,
    pub(crate) from: Value,
    pub(crate) to: Value,
    pub(crate) range: Range<usize>,
}

/// "10 miles to kilometers", "how many pounds is 5 kg".
pub(crate) fn units(message: &Message, from: &Parameter, to: &Parameter) -> Option<Units> {
    let quantity = quantities(message).into_iter().find(|quantity| quantity.unit.is_some())?;
    let (source, group) = quantity.unit.clone()?;
    let unit_end = message
        .word_after(quantity.range.end)
        .filter(|word| word.lower == source)
        .map_or(quantity.range.end, |word| word.end);
    let mut target = None;
    for (at, word) in message.words.iter().enumerate() {
        let Some(found) = unit(&word.lower).filter(|found| *found != group) else { continue };
        if word.start >= quantity.range.start && word.end <= unit_end {
            continue;
        }
        // "in" is an inch only where nothing else can be meant, and single letters only behind "to" and "in".
        let before = at.checked_sub(1).and_then(|before| message.words.get(before)).map(|word| word.lower.as_str());
        let leads = matches!(before, Some("to" | "in" | "into" | "many" | "much" | "as"));
        if word.lower == "in" || (word.lower.chars().count() == 1 && !leads) {
            continue;
        }
        target = Some((word.lower.clone(), found, leads));
        if leads {
            break;
        }
    }
    let (target, target_group, _) = target?;
    Some(Units {
        value: quantity.value,
        from: named(&from.shape, &source, group)?,
        to: named(&to.shape, &target, target_group)?,
        range: quantity.range.start..unit_end,
    })
}

/// A unit as the tool calls it.
fn named(shape: &Shape, word: &str, group: usize) -> Option<Value> {
    match shape {
        Shape::Choice(values) => values
            .iter()
            .find(|value| value.as_str().and_then(|name| unit(&name.to_lowercase())) == Some(group))
            .cloned(),
        Shape::Text { .. } => Some(word.into()),
        _ => None,
    }
}

/// `value` as this shape wants it, if it can.
pub(crate) fn number_value(shape: &Shape, value: f64) -> Option<Value> {
    let within =
        |min: &Option<f64>, max: &Option<f64>| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max);
    let whole = value.fract() == 0.0 && value.abs() < 1e15;
    match shape {
        Shape::Integer { min, max } if whole && within(min, max) => Some(json!(truncate(value))),
        Shape::Number { min, max } if within(min, max) => {
            Some(if whole { json!(truncate(value)) } else { json!(value) })
        }
        _ => None,
    }
}

/// How a number parameter is spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// "5 lines", "at most 5".
    Count,
    /// "line 5".
    Index,
    Plain,
}

fn manner(parameter: &Parameter) -> Manner {
    let has = |words: &[&str]| words.iter().any(|word| parameter.stems.contains(&stem(word)));
    if has(&["max", "maximum", "limit", "count", "num", "top", "min", "n", "size", "length"]) {
        Manner::Count
    } else if has(&["first", "start", "offset", "page", "index", "line", "row", "begin"]) {
        Manner::Index
    } else {
        Manner::Plain
    }
}

const SECOND: &[(&str, f64)] = &[("second", 1.0), ("sec", 1.0), ("minut", 60.0), ("min", 60.0), ("hour", 3600.0)];

/// Gives the numbers that are left to the number parameters that are left, best match first.
pub(crate) fn numbers(roles: &[(&Parameter, Role)], message: &Message, filled: &mut Filled) {
    let left: Vec<&Parameter> = roles
        .iter()
        .filter(|(parameter, role)| *role == Role::Number && !filled.values.contains_key(&parameter.name))
        .map(|(parameter, _)| *parameter)
        .collect();
    if left.is_empty() {
        return;
    }
    let numbers: Vec<Quantity> =
        quantities(message).into_iter().filter(|quantity| filled.is_free(&quantity.range)).collect();
    if let Some((index, count, first, last)) = span(&left, &numbers, message) {
        let length = numbers[last].value - numbers[first].value + 1.0;
        if let (Some(start), Some(length)) =
            (number_value(&index.shape, numbers[first].value), number_value(&count.shape, length))
        {
            filled.put_number(index, start, numbers[first].range.clone());
            filled.put_number(count, length, numbers[last].range.clone());
            return;
        }
    }
    let mut matches = Vec::new();
    for (which, parameter) in left.iter().enumerate() {
        for (at, quantity) in numbers.iter().enumerate() {
            if let Some((score, value)) = affinity(parameter, quantity, message) {
                matches.push((score, which, at, value));
            }
        }
    }
    matches.sort_by_key(|(score, ..)| std::cmp::Reverse(*score));
    let (mut filled_ones, mut used) = (vec![false; left.len()], vec![false; numbers.len()]);
    for (score, which, at, value) in matches {
        if score >= 2 && !filled_ones[which] && !used[at] {
            (filled_ones[which], used[at]) = (true, true);
            filled.put_number(left[which], value, numbers[at].range.clone());
        }
    }
    let required: Vec<usize> = (0..left.len()).filter(|&which| left[which].required && !filled_ones[which]).collect();
    let rest: Vec<usize> = (0..numbers.len()).filter(|&at| !used[at]).collect();
    if let ([which], [at]) = (required.as_slice(), rest.as_slice())
        && let Some(value) = number_value(&left[*which].shape, numbers[*at].value)
    {
        filled.put_number(left[*which], value, numbers[*at].range.clone());
    }
}

/// "lines 10 to 20", where one parameter is a first line and another a number of lines.
fn span<'p>(
    left: &[&'p Parameter],
    numbers: &[Quantity],
    message: &Message,
) -> Option<(&'p Parameter, &'p Parameter, usize, usize)> {
    let (first, last) = numbers.windows(2).enumerate().find_map(|(at, pair)| {
        let between = message.text[pair[0].range.end..pair[1].range.start].trim();
        (matches!(between, "to" | "-" | "–" | "through" | "until") && pair[0].value <= pair[1].value)
            .then_some((at, at + 1))
    })?;
    let noun = message.words_before(numbers[first].range.start).find(|word| !is_filler(&word.lower))?;
    let with = |wanted: Manner| {
        left.iter().find(|parameter| manner(parameter) == wanted && parameter.stems.contains(&noun.stem)).copied()
    };
    Some((with(Manner::Index)?, with(Manner::Count)?, first, last))
}

/// How well a number and a parameter go together, and the value.
fn affinity(parameter: &Parameter, quantity: &Quantity, message: &Message) -> Option<(u32, Value)> {
    let adjacent_after = message
        .word_after(quantity.range.end)
        .filter(|word| message.text[quantity.range.end..word.start].trim_matches([' ', '-']).is_empty());
    let before: Vec<&str> =
        message.words_before(quantity.range.start).take(4).map(|word| word.lower.as_str()).collect();
    let small = |word: &&str| {
        matches!(
            *word,
            "of" | "is" | "to" | "at" | "the" | "most" | "a" | "up" | "only" | "from" | "number" | "by" | "="
        )
    };
    let left = before.iter().find(|word| !small(word)).map(|word| stem(word));
    let limits =
        before.first().is_some_and(|word| matches!(*word, "first" | "top" | "most" | "maximum" | "max" | "only"))
            || before.first() == Some(&"to") && before.get(1) == Some(&"up")
            || before.first() == Some(&"than");
    // "the last 5" asks for an end that a limit cannot give.
    if before.first() == Some(&"last") {
        return None;
    }
    let right = adjacent_after.map(|word| word.stem.clone());
    let in_name = |word: &Option<String>| word.as_ref().is_some_and(|word| parameter.stems.contains(word));
    let in_description =
        |word: &Option<String>| word.as_ref().is_some_and(|word| parameter.description_stems.contains(word));
    let seconds = parameter.stems.iter().any(|stem| matches!(stem.as_str(), "second" | "sec"));
    let factor =
        right.as_ref().and_then(|right| SECOND.iter().find(|(name, _)| name == right)).map(|(_, factor)| *factor);
    if seconds || factor.is_some() && !in_name(&right) {
        // A time is given in units of time alone.
        let factor = factor.filter(|_| seconds)?;
        return number_value(&parameter.shape, quantity.value * factor).map(|value| (4, value));
    }
    let score = match manner(parameter) {
        Manner::Count => {
            let noun = if in_name(&right) { 3 } else { u32::from(in_description(&right)) * 2 };
            let named = left.as_ref().is_some_and(|left| {
                in_name(&Some(left.clone()))
                    && matches!(left.as_str(), "limit" | "max" | "maximum" | "count" | "length")
            });
            noun + u32::from(named) * 3 + u32::from(limits)
        }
        Manner::Index => u32::from(in_name(&left)) * 3,
        Manner::Plain => {
            u32::from(in_name(&left) || in_name(&right)) * 3
                + u32::from(in_description(&left) || in_description(&right)) * 2
        }
    };
    number_value(&parameter.shape, quantity.value).map(|value| (score, value))
}
