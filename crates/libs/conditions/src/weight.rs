//! Upper bound for the cost of an expression, computed in a single traversal.
//!
//! Each part has a size (characters and elements of its value) and a cost (steps to compute it), both as upper bounds.
//! A loop costs its body once for each element. A chain such as `s.map(a, a + a).map(b, b + b)…` doubles with each
//! link, which the sizes reflect.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::calendar;
use super::error::ConditionError;

/// Size bound of a formatted number or time.
const MAX_FORMATTED_SIZE: u64 = 64;
/// Cost of compiling a pattern.
const PATTERN_COST: u64 = 20_000;
/// Cost of finding a time zone by name, and its rules for a time.
const ZONE_COST: u64 = 2_000;

/// Variable that a condition may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// Maximum total number of characters and elements.
    pub max_size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) size: u64,
    pub(crate) cost: u64,
}

impl Weight {
    const ONE: Self = Self { size: 1, cost: 1 };

    /// Combines two parts that are evaluated in sequence, with a value that contains both.
    fn and(self, other: Self) -> Self {
        Self { size: self.size.saturating_add(other.size), cost: self.cost.saturating_add(other.cost) }
    }
}

/// Returns the number of nodes.
pub(crate) fn count(expression: &IdedExpr) -> usize {
    1 + children(expression).into_iter().map(count).sum::<usize>()
}

/// Returns the nesting depth.
pub(crate) fn depth(expression: &IdedExpr) -> usize {
    1 + children(expression).into_iter().map(depth).max().unwrap_or_default()
}

/// Returns the first field of `variable` that is read but not in `known`.
pub(crate) fn unknown_field<'e>(expression: &'e IdedExpr, variable: &str, known: &[&str]) -> Option<&'e str> {
    if let Expr::Select(select) = &expression.expr
        && matches!(&select.operand.expr, Expr::Ident(name) if name == variable)
    {
        return (!select.test && !known.contains(&select.field.as_str())).then_some(select.field.as_str());
    }
    children(expression).into_iter().find_map(|child| unknown_field(child, variable, known))
}

/// Collects the `variables` that are used, each once, in order of appearance.
pub(crate) fn variables<'v>(expression: &IdedExpr, variables: &'v [Variable], named: &mut Vec<&'v Variable>) {
    if let Expr::Ident(name) = &expression.expr
        && let Some(variable) = variables.iter().find(|variable| variable.name == name)
        && !named.contains(&variable)
    {
        named.push(variable);
    }
    children(expression).into_iter().for_each(|child| self::variables(child, variables, named));
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(loops) => {
            vec![&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(object) => object.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Returns the bounds of an expression over `variables`.
pub(crate) fn weigh(expression: &IdedExpr, variables: &[Variable]) -> Result<Weight, ConditionError> {
    Scale { variables, scope: Vec::new() }.weigh(expression)
}

struct Scale<'a> {
    variables: &'a [Variable],
    /// Loop variables in scope, with the sizes of their values.
    scope: Vec<(String, u64)>,
}

impl Scale<'_> {
    fn weigh(&mut self, expression: &IdedExpr) -> Result<Weight, ConditionError> {
        Ok(match &expression.expr {
            Expr::Unspecified => Weight::ONE,
            Expr::Literal(LiteralValue::String(text)) => Weight { size: length(text.len()), cost: 1 },
            Expr::Literal(_) => Weight { size: MAX_FORMATTED_SIZE, cost: 1 },
            Expr::Ident(name) => {
                let size = self.size_of(name)?;
                // Values are copied on use.
                Weight { size, cost: size }
            }
            Expr::Comprehension(loops) => {
                let range = self.weigh(&loops.iter_range)?;
                let init = self.weigh(&loops.accu_init)?;
                let rounds = range.size.max(1);
                let before = self.scope.len();
                self.scope.push((loops.iter_var.clone(), range.size));
                if let Some(second) = &loops.iter_var2 {
                    self.scope.push((second.clone(), range.size));
                }
                // Growth in one iteration, in addition to the values accumulated so far.
                self.scope.push((loops.accu_var.clone(), 1));
                let condition = self.weigh(&loops.loop_cond)?;
                let step = self.weigh(&loops.loop_step)?;
                let collected = init.size.saturating_add(rounds.saturating_mul(step.size));
                self.scope.truncate(before);
                self.scope.push((loops.accu_var.clone(), collected));
                let result = self.weigh(&loops.result)?;
                self.scope.truncate(before);
                let a_round = condition.cost.saturating_add(step.cost);
                let cost = [init.cost, rounds.saturating_mul(a_round), result.cost, collected]
                    .into_iter()
                    .fold(range.cost, u64::saturating_add);
                Weight { size: result.size, cost }
            }
            Expr::Call(call) => self.call(&call.func_name, call.target.as_deref(), &call.args)?,
            Expr::Select(select) if select.test => Weight { size: 1, ..self.weigh(&select.operand)? },
            Expr::Select(select) => self.weigh(&select.operand)?,
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => self.sum(children(expression))?,
        })
    }

    fn sum<'e>(&mut self, parts: impl IntoIterator<Item = &'e IdedExpr>) -> Result<Weight, ConditionError> {
        let mut sum = Weight::ONE;
        for part in parts {
            sum = sum.and(self.weigh(part)?);
        }
        Ok(sum)
    }

    fn call(&mut self, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) -> Result<Weight, ConditionError> {
        let whole = self.sum(target.into_iter().chain(args))?;
        // Processing a value takes time proportional to its size.
        let mut cost = whole.cost.saturating_add(whole.size);
        if name == "matches" {
            cost = cost.saturating_add(PATTERN_COST);
        }
        if !args.is_empty() && calendar::is_part(name) {
            cost = cost.saturating_add(ZONE_COST);
        }
        let is_truth = matches!(
            name,
            "_&&_"
                | "_||_"
                | "!_"
                | "_==_"
                | "_!=_"
                | "_<_"
                | "_<=_"
                | "_>_"
                | "_>=_"
                | "@in"
                | "@not_strictly_false"
                | "contains"
                | "startsWith"
                | "endsWith"
                | "matches"
                | "size"
        );
        let size = if is_truth { 1 } else { whole.size.saturating_add(MAX_FORMATTED_SIZE) };
        // Accumulation in a loop is bounded separately.
        let size = if name == "_+_" { whole.size } else { size };
        Ok(Weight { size, cost })
    }

    fn size_of(&self, name: &str) -> Result<u64, ConditionError> {
        if let Some((_, size)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Ok(*size);
        }
        match self.variables.iter().find(|variable| variable.name == name) {
            Some(variable) => Ok(u64::from(variable.max_size)),
            None => Err(ConditionError::UnknownVariable {
                name: name.chars().take(80).collect(),
                known: self.variables.iter().map(|variable| variable.name).collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}
