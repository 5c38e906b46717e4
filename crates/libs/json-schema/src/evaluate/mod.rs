//! The evaluation of one value, step by step.

mod assertions;
mod objects;
mod path;
mod unevaluated;

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use self::path::Path;
use super::schema::{MAX_PATTERN_BYTES, Schema};

/// Problems that are told at once.
const MAX_PROBLEMS: usize = 5;
const MAX_PROBLEM_CHARACTERS: usize = 300;
/// Schemas being evaluated within one another: the stack is bounded.
const MAX_DEPTH: u32 = 256;
/// About what compiling a pattern costs.
const PATTERN_STEPS: u64 = 10_000;
/// How large a compiled pattern may be, in bytes, and the steps that each byte of a text then costs at most: where
/// states no longer fit into the cache, the time is that of the size.
const PATTERN_SIZES: [(usize, u64); 5] = [(1 << 13, 1), (1 << 14, 4), (1 << 15, 8), (1 << 16, 16), (1 << 17, 32)];
const PATTERN_CACHE: usize = 1 << 20;
/// Translating a pattern takes time that is quadratic in the number of its classes.
const MAX_CLASSES: usize = 32;

/// The steps were used up, or the recursion is too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

type Verdict = Result<bool, Exhausted>;

pub(super) struct Evaluation<'s> {
    schema: &'s Schema,
    steps_left: u64,
    depth: u32,
    /// `None`: a pattern that is not asserted.
    patterns: HashMap<&'s str, Option<(Regex, u64)>>,
    problems: Vec<String>,
}

/// Where an evaluation is, and whether what it finds is told or only counts.
#[derive(Clone, Copy)]
struct At<'p> {
    path: Path<'p>,
    tells: bool,
}

impl At<'_> {
    fn silent(self) -> Self {
        Self { tells: false, ..self }
    }
}

impl<'s> Evaluation<'s> {
    pub(super) fn new(schema: &'s Schema, steps: u64) -> Self {
        Self { schema, steps_left: steps, depth: 0, patterns: HashMap::new(), problems: Vec::new() }
    }

    /// What does not fit; empty if all does.
    pub(super) fn problems(mut self, value: &Value) -> Result<Vec<String>, Exhausted> {
        let at = At { path: Path::Root, tells: true };
        let fits = self.fits(self.schema.value(), value, at)?;
        if !fits && self.problems.is_empty() {
            self.problems.push("it does not fit".to_owned());
        }
        Ok(self.problems)
    }

    fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Exhausted)?;
        Ok(())
    }

    fn fails(&mut self, at: At<'_>, problem: impl FnOnce() -> String) -> Verdict {
        if at.tells && self.problems.len() < MAX_PROBLEMS {
            let problem: String = problem().chars().take(MAX_PROBLEM_CHARACTERS).collect();
            self.problems.push(at.path.describe(&problem));
        }
        Ok(false)
    }

    /// Whether to look for more once something does not fit.
    fn goes_on(&self, at: At<'_>) -> bool {
        at.tells && self.problems.len() < MAX_PROBLEMS
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        self.spend(1)?;
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return self.fails(at, || "nothing is allowed here".to_owned()),
            _ => return Ok(true),
        };
        if self.depth >= MAX_DEPTH {
            return Err(Exhausted);
        }
        self.depth += 1;
        let verdict = self.all_keywords(keywords, value, at);
        self.depth -= 1;
        verdict
    }

    fn all_keywords(&mut self, keywords: &'s Map<String, Value>, value: &Value, at: At<'_>) -> Verdict {
        if self.schema.ref_stands_alone()
            && let Some(reference) = keywords.get("$ref")
        {
            return self.reference(reference, value, at);
        }
        let mut fits = true;
        for (keyword, argument) in keywords {
            self.spend(1)?;
            fits &= self.keyword(keywords, keyword, argument, value, at)?;
            if !fits && !self.goes_on(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn keyword(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &'s str,
        argument: &'s Value,
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        match (keyword, value) {
            ("$ref", _) => self.reference(argument, value, at),
            ("allOf", _) => self.all(argument, value, at),
            ("anyOf", _) => self.any(argument, value, at),
            ("oneOf", _) => self.one(argument, value, at),
            ("not", _) => match self.fits(argument, value, at.silent())? {
                true => self.fails(at, || "must not fit what `not` excludes".to_owned()),
                false => Ok(true),
            },
            ("if", _) => {
                let branch = if self.fits(argument, value, at.silent())? { "then" } else { "else" };
                match keywords.get(branch) {
                    Some(branch) => self.fits(branch, value, at),
                    None => Ok(true),
                }
            }
            ("type" | "enum" | "const", _) => self.asserts_any(keyword, argument, value, at),
            (_, Value::Number(number)) => self.asserts_number(keywords, keyword, argument, number, at),
            (_, Value::String(text)) => self.asserts_string(keyword, argument, text, at),
            (_, Value::Array(items)) => self.asserts_array(keywords, keyword, argument, items, value, at),
            (_, Value::Object(members)) => self.asserts_object(keywords, keyword, argument, members, value, at),
            (_, Value::Null | Value::Bool(_)) => Ok(true),
        }
    }

    /// Of a schema of our own that was never looked through, a reference may lead nowhere; then nothing is asserted.
    fn reference(&mut self, reference: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(reference) = reference.as_str() else { return Ok(true) };
        self.spend(1 + reference.len() as u64 / 16)?;
        match self.schema.resolve(reference) {
            Some(target) => self.fits(target, value, at),
            None => Ok(true),
        }
    }

    fn all(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let mut fits = true;
        for part in parts.as_array().into_iter().flatten() {
            fits &= self.fits(part, value, at)?;
            if !fits && !self.goes_on(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn any(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(parts) = parts.as_array() else { return Ok(true) };
        for part in parts {
            if self.fits(part, value, at.silent())? {
                return Ok(true);
            }
        }
        self.fails_of_alternatives(parts, value, at)
    }

    fn one(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(parts) = parts.as_array() else { return Ok(true) };
        let mut fitting = 0;
        for part in parts {
            fitting += usize::from(self.fits(part, value, at.silent())?);
            if fitting > 1 {
                return self.fails(at, || "fits more than one of the alternatives in `oneOf`".to_owned());
            }
        }
        if fitting == 1 { Ok(true) } else { self.fails_of_alternatives(parts, value, at) }
    }

    /// Where only one alternative has the value's type (others are `null`, say), its problems are what helps.
    fn fails_of_alternatives(&mut self, parts: &'s [Value], value: &Value, at: At<'_>) -> Verdict {
        if !at.tells {
            return Ok(false);
        }
        let mut of_its_type = parts.iter().filter(|part| match part.get("type") {
            Some(types) => assertions::has_type(types, value),
            None => !part.is_boolean(),
        });
        match (of_its_type.next(), of_its_type.next()) {
            (Some(part), None) => self.fits(part, value, at),
            _ => self.fails(at, || "fits none of the alternatives".to_owned()),
        }
    }

    /// Whether a text matches a pattern; `true` where the pattern is not asserted.
    fn matches(&mut self, pattern: &'s str, text: &str) -> Verdict {
        self.spend(1)?;
        if !self.patterns.contains_key(pattern) {
            self.spend(PATTERN_STEPS)?;
            self.patterns.insert(pattern, compile(pattern));
        }
        let Some(Some((_, steps))) = self.patterns.get(pattern) else { return Ok(true) };
        self.spend(steps.saturating_mul(text.len() as u64))?;
        Ok(self.patterns.get(pattern).and_then(Option::as_ref).is_none_or(|(regex, _)| regex.is_match(text)))
    }
}

/// The smallest compiled form, and the steps that each byte of a text costs with it.
fn compile(pattern: &str) -> Option<(Regex, u64)> {
    let classes = pattern.matches('\\').count() + pattern.matches('.').count();
    if pattern.len() > MAX_PATTERN_BYTES || classes > MAX_CLASSES {
        return None;
    }
    let translated = jsonschema_regex::to_rust_regex(pattern).ok()?;
    PATTERN_SIZES.into_iter().find_map(|(size, steps)| {
        let regex = RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(PATTERN_CACHE).build();
        regex.ok().map(|regex| (regex, steps))
    })
}
