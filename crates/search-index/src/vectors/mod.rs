//! Vectors: quantized, in parts, scanned exactly.

pub(crate) mod dot;
pub(crate) mod part;
pub(crate) mod quantize;
