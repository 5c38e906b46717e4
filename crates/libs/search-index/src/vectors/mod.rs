//! Vectors: quantized, in parts, all of them compared with every query.

pub(crate) mod dot;
pub(crate) mod part;
pub(crate) mod quantize;
