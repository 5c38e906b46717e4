//! From a text to a condition that may be kept.

use cel::parser::{Expression, Parser};

use super::error::{ConditionError, MAX_CHARACTERS, MAX_NODES, shorten};
use super::evaluate::{Values, evaluate, evaluate_all, on_own_stack};
use super::weight::{self, Variable, Weight};

/// Parentheses, calls and operators inside each other.
const MAX_DEPTH: u16 = 32;
/// Of what was read, where chains of operators count as well.
const MAX_AST_DEPTH: usize = 100;
/// About what a machine does in some tens of milliseconds.
const MAX_COST: u64 = 64_000_000;
/// Of any value on the way, in characters and elements.
const MAX_SIZE: u64 = 1_000_000;
/// An expression that may be evaluated.
pub struct Condition {
    expression: Expression,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condition")
    }
}

impl Condition {
    /// Reads an expression over `variables`.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence for whoever wrote it.
    pub fn compile(text: &str, variables: &[Variable]) -> Result<Self, ConditionError> {
        if text.trim().is_empty() {
            return Err(ConditionError::Empty);
        }
        let characters = text.chars().count();
        if characters > MAX_CHARACTERS {
            return Err(ConditionError::TooLong { characters });
        }
        let syntax = || ConditionError::Syntax { message: "it cannot be read".to_owned() };
        let expression = on_own_stack(|| checked(text, variables)).unwrap_or_else(|| Err(syntax()))?;
        Ok(Self { expression })
    }

    /// Those of `variables` that the condition names, in the order in which it does.
    #[must_use]
    pub fn names<'v>(&self, variables: &'v [Variable]) -> Vec<&'v Variable> {
        let mut named = Vec::new();
        weight::variables(&self.expression, variables, &mut named);
        named
    }

    /// A field that is read of `variable` and is not among those `known`. What `has(…)` asks for may be missing.
    #[must_use]
    pub fn unknown_field(&self, variable: &str, known: &[&str]) -> Option<String> {
        weight::unknown_field(&self.expression, variable, known).map(shorten)
    }

    /// Holds the condition against examples of what it will be given, so that what cannot work is refused
    /// when it is saved. It is good if it can be evaluated for one of them.
    ///
    /// # Errors
    /// What the last example led to.
    pub fn try_with(&self, examples: &[Values]) -> Result<(), ConditionError> {
        let mut last = Ok(());
        for example in examples {
            match self.evaluate(example) {
                Ok(_) => return Ok(()),
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// Evaluates it. May take some tens of milliseconds of the processor.
    ///
    /// # Errors
    /// `NotBoolean` or `Evaluation`.
    pub fn evaluate(&self, values: &Values) -> Result<bool, ConditionError> {
        evaluate(&self.expression, values)
    }

    /// The same for many, which costs less than one after the other. Of each, values that are not given are unknown,
    /// and a condition that hangs on one is an error.
    #[must_use]
    pub fn evaluate_all(conditions: &[(&Self, &Values)]) -> Vec<Result<bool, ConditionError>> {
        let expressions: Vec<_> =
            conditions.iter().map(|(condition, values)| (&condition.expression, *values)).collect();
        evaluate_all(&expressions)
    }
}

/// Reads and weighs; what is refused is dropped here, too.
fn checked(text: &str, variables: &[Variable]) -> Result<Expression, ConditionError> {
    let expression = parse(text)?;
    if weight::count(&expression) > MAX_NODES || weight::depth(&expression) > MAX_AST_DEPTH {
        return Err(ConditionError::TooLarge);
    }
    let Weight { size, cost } = weight::weigh(&expression, variables)?;
    if cost > MAX_COST || size > MAX_SIZE {
        return Err(ConditionError::TooLarge);
    }
    Ok(expression)
}

fn parse(text: &str) -> Result<Expression, ConditionError> {
    let syntax = |message: &str| ConditionError::Syntax { message: shorten(message) };
    Parser::new().max_recursion_depth(MAX_DEPTH).parse(text).map_err(|errors| match errors.errors.first() {
        // The parser tells of its own bounds by showing its insides.
        Some(first) if first.msg.contains("Recursion limit") => {
            syntax(&format!("it is nested too deeply; {MAX_DEPTH} levels are allowed"))
        }
        Some(first) if first.msg.contains("attempt limit") || first.msg.contains("Error(") => {
            syntax("it cannot be read")
        }
        Some(first) => syntax(&format!("line {}, column {}: {}", first.pos.0, first.pos.1, first.msg)),
        None => syntax("it cannot be read"),
    })
}
