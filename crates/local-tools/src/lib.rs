//! Tool calls decided outside the model and written under a grammar, for models that have none of their own. Today
//! every local model is served so, also one whose chat template knows tools.
//!
//! A small model neither knows when to call a tool nor writes its input without mistakes. So here a
//! deterministic ranking over the offered tools ([`decide`]) says whether one fits the last message
//! and which; what stands in the message literally is taken from it; and only what is left is
//! written by the model, asked with [`Plan::prompt`], mostly under a grammar that is made of the tool's
//! schema. The finished input ([`Plan::input`]) is held against that schema before anybody sees it.
//!
//! Invariants: everything here is a pure function; no call comes out that its tool's schema refuses; no
//! schema, message or reply makes any of this panic, and the work is bounded by their size.
//!
//! Hints: what a tool's description has in quotation marks counts as an example of a request that
//! the tool is for (`Plays music. "put on some jazz", "next song"`).
//!
//! Deliberately absent: running a model, which is its owner's; and tool names. All that is known of a
//! tool is in its definition. The words are English; in other languages only what is written the same
//! (paths, addresses, sums) is understood.

mod arithmetic;
mod extract;
mod fill;
mod form;
mod literals;
mod phrases;
mod plan;
mod prompt;
mod rank;
mod reply;
mod request_kind;
mod role;
#[cfg(test)]
mod tests;
mod words;

pub use form::FormError;
pub use plan::{PastCall, Plan, ToolSpec, decide, refusal};
pub use prompt::Prompt;
