//! Compilation of conditions.

use cel::parser::{Expression, Parser};

use super::error::{ConditionError, MAX_CHARACTERS, MAX_NODES, shorten};
use super::evaluate::{Values, evaluate, evaluate_all, on_own_stack};
use super::weight::{self, Variable, Weight};

/// Maximum nesting of parentheses, calls and operators.
const MAX_DEPTH: u16 = 32;
/// Maximum depth of the parsed expression, including chains of operators.
const MAX_AST_DEPTH: usize = 100;
/// Maximum cost, approximately some tens of milliseconds.
const MAX_COST: u64 = 64_000_000;
/// Maximum size of any intermediate value, in characters and elements.
const MAX_SIZE: u64 = 1_000_000;
/// Compiled condition.
pub struct Condition {
    expression: Expression,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condition")
    }
}

impl Condition {
    /// Compiles an expression over `variables`.
    ///
    /// # Errors
    /// Returns the reason as a sentence for the author.
    pub fn compile(text: &str, variables: &[Variable]) -> Result<Self, ConditionError> {
        if text.trim().is_empty() {
            return Err(ConditionError::Empty);
        }
        let characters = text.chars().count();
        if characters > MAX_CHARACTERS {
            return Err(ConditionError::TooLong { characters });
        }
        let syntax = || ConditionError::Syntax { message: "it cannot be parsed".to_owned() };
        let expression = on_own_stack(|| parse_and_check(text, variables)).unwrap_or_else(|| Err(syntax()))?;
        Ok(Self { expression })
    }

    /// Returns the `variables` that the condition uses, in order of appearance.
    #[must_use]
    pub fn names<'v>(&self, variables: &'v [Variable]) -> Vec<&'v Variable> {
        let mut named = Vec::new();
        weight::variables(&self.expression, variables, &mut named);
        named
    }

    /// Returns a field of `variable` that is read but not in `known`. Fields tested with `has(…)` may be missing.
    #[must_use]
    pub fn unknown_field(&self, variable: &str, known: &[&str]) -> Option<String> {
        weight::unknown_field(&self.expression, variable, known).map(shorten)
    }

    /// Evaluates the condition with example values, so that invalid conditions are rejected when they are saved. It is
    /// accepted if the evaluation succeeds for one of them.
    ///
    /// # Errors
    /// Returns the error of the last example.
    pub fn check_with_examples(&self, examples: &[Values]) -> Result<(), ConditionError> {
        let mut last = Ok(());
        for example in examples {
            match self.evaluate(example) {
                Ok(_) => return Ok(()),
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// Evaluates the condition. May take some tens of milliseconds of CPU time.
    ///
    /// # Errors
    /// `NotBoolean` or `Evaluation`.
    pub fn evaluate(&self, values: &Values) -> Result<bool, ConditionError> {
        evaluate(&self.expression, values)
    }

    /// Evaluates several conditions, which is cheaper than one by one. Missing values are unknown, and a condition that
    /// depends on one is an error.
    #[must_use]
    pub fn evaluate_all(conditions: &[(&Self, &Values)]) -> Vec<Result<bool, ConditionError>> {
        let expressions: Vec<_> =
            conditions.iter().map(|(condition, values)| (&condition.expression, *values)).collect();
        evaluate_all(&expressions)
    }
}

/// Parses and checks the expression; rejected expressions are also dropped on this stack.
fn parse_and_check(text: &str, variables: &[Variable]) -> Result<Expression, ConditionError> {
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
        // The parser's message for its own limit exposes internals.
        Some(first) if first.msg.contains("Recursion limit") => {
            syntax(&format!("it is nested too deeply; {MAX_DEPTH} levels are allowed"))
        }
        Some(first) if first.msg.contains("attempt limit") || first.msg.contains("Error(") => {
            syntax("it cannot be parsed")
        }
        Some(first) => syntax(&format!("line {}, column {}: {}", first.pos.0, first.pos.1, first.msg)),
        None => syntax("it cannot be parsed"),
    })
}
