//! The daemon's side against real processes: scripted ones that misbehave on demand, and the engine
//! itself where a model file is there.

mod child;
mod real;
mod scripted;
