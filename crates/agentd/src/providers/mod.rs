//! AI providers: their keys and state, which model answers, and what calls used and cost.
