//! Conditions that people write: expressions in CEL (Common Expression Language) over values that the
//! caller gives, which must come to true or false.
//!
//! Invariants
//! - What is compiled is bounded: in length, in nesting, and in what it can cost at most with values of the
//!   declared sizes. CEL has no loops but those over lists, so what is bounded ends.
//! - A condition names declared variables only, and was tried with examples when it was saved.
//! - No text makes it panic: what the interpreter trips over is an error with a sentence.
//!
//! Deliberately absent: what the variables mean, and what happens when a condition is false.

mod calendar;
mod compile;
mod error;
mod evaluate;
mod weight;

pub use compile::Condition;
pub use error::ConditionError;
pub use evaluate::{Given, Values};
pub use weight::Variable;
