//! User-defined conditions: boolean expressions in CEL (Common Expression Language) over values that the caller
//! provides.
//!
//! Invariants:
//! - Compiled conditions are bounded in length, nesting, and maximum cost for values of the declared sizes. The only
//!   loops in CEL are those over lists, so bounded evaluations terminate.
//! - A condition uses only declared variables, and was evaluated with examples when it was saved.
//! - No text causes a panic: interpreter failures become errors with a message.
//!
//! Out of scope: the meaning of the variables, and the effect of a false condition.

mod calendar;
mod compile;
mod error;
mod evaluate;
mod weight;

pub use compile::Condition;
pub use error::ConditionError;
pub use evaluate::{Input, Values};
pub use weight::Variable;
