//! State of an evaluation: remaining steps, compiled patterns, and problems.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::path::Path;
use crate::schema::{MAX_PATTERN_BYTES, Schema};

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 5;
const MAX_PROBLEM_CHARACTERS: usize = 300;
/// Maximum nesting of schema evaluations, which bounds the stack.
pub(super) const MAX_DEPTH: u32 = 256;
/// Approximate cost of compiling a pattern, in steps.
const PATTERN_STEPS: u64 = 10_000;
/// Maximum size of a compiled pattern in bytes, with the maximum number of steps per byte of text. The cost grows once
/// the states no longer fit into the CPU cache.
const PATTERN_SIZES: [(usize, u64); 5] = [(1 << 13, 1), (1 << 14, 4), (1 << 15, 8), (1 << 16, 16), (1 << 17, 32)];
const PATTERN_CACHE: usize = 1 << 20;
/// Maximum number of classes in a pattern, since its translation takes time quadratic in their number.
const MAX_CLASSES: usize = 32;

/// Error for exhausted steps or too deep recursion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

pub(super) type Verdict = Result<bool, Exhausted>;

pub(super) struct Evaluation<'s> {
    pub(super) schema: &'s Schema,
    pub(super) steps_left: u64,
    pub(super) depth: u32,
    /// Compiled patterns; `None` for a pattern that is not asserted.
    pub(super) patterns: HashMap<&'s str, Option<(Regex, u64)>>,
    pub(super) problems: Vec<String>,
}

/// Position of an evaluation, and whether problems are reported.
#[derive(Clone, Copy)]
pub(super) struct At<'p> {
    pub(super) path: Path<'p>,
    pub(super) tells: bool,
}

impl At<'_> {
    pub(super) fn silent(self) -> Self {
        Self { tells: false, ..self }
    }
}

impl<'s> Evaluation<'s> {
    pub(super) fn new(schema: &'s Schema, steps: u64) -> Self {
        Self { schema, steps_left: steps, depth: 0, patterns: HashMap::new(), problems: Vec::new() }
    }

    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Exhausted)?;
        Ok(())
    }

    pub(super) fn fails(&mut self, at: At<'_>, problem: impl FnOnce() -> String) -> Verdict {
        if at.tells && self.problems.len() < MAX_PROBLEMS {
            let problem: String = problem().chars().take(MAX_PROBLEM_CHARACTERS).collect();
            self.problems.push(at.path.describe(&problem));
        }
        Ok(false)
    }

    /// Whether to continue after a mismatch, to collect further problems.
    pub(super) fn should_continue(&self, at: At<'_>) -> bool {
        at.tells && self.problems.len() < MAX_PROBLEMS
    }

    /// Whether a text matches a pattern; `true` if the pattern is not asserted.
    pub(super) fn matches(&mut self, pattern: &'s str, text: &str) -> Verdict {
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

/// Compiles the pattern with the smallest sufficient size limit; also returns the steps per byte of text.
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
