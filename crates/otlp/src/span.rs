//! What is told of one operation that is over.

use agentd_base::Timestamp;
use agentd_base::trace::{SpanId, TraceContext};

/// What stands at the other side of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Nobody: it happens here.
    Internal,
    /// Who asked this daemon.
    Server,
    /// Whom this daemon asks.
    Client,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Text(String),
    Number(u64),
    Float(f64),
    List(Vec<String>),
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The span itself.
    pub place: TraceContext,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl Span {
    /// About how many bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        let of = |attribute: &Attribute| match attribute {
            Attribute::Text(text) => text.len(),
            Attribute::Number(_) | Attribute::Float(_) => 0,
            Attribute::List(texts) => texts.iter().map(|text| text.len() + size_of::<String>()).sum(),
        };
        let attributes: usize =
            self.attributes.iter().map(|(_, value)| size_of::<(&str, Attribute)>() + of(value)).sum();
        size_of::<Self>() + self.name.len() + self.error.as_ref().map_or(0, String::len) + attributes
    }
}
