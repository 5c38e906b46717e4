//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): trace and span ids, and the ambient context for code
//! that does not receive one as an argument.
//!
//! The ambient context is a thread-local value that is set while a future wrapped by [`with_context`] is polled. It
//! only labels what is logged, stored and sent; no behaviour depends on it.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Identifier of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Identifier of a span within its trace: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Accepts lower-case digits only, as the standard requires.
fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

impl TraceId {
    /// Creates an id. Zero is not a valid id and is replaced by one.
    #[must_use]
    pub fn new(number: u128) -> Self {
        Self(number.max(1).to_be_bytes())
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// Creates an id. Zero is not a valid id and is replaced by one.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number.max(1).to_be_bytes())
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0
    }

    /// Parses 16 lower-case hex digits that are not all zero.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        read_hex(text).filter(|bytes| *bytes != [0; 8]).map(Self)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// Position in a trace, as carried by a `traceparent` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: TraceId,
    /// Parent span of everything that happens in this context.
    pub span_id: SpanId,
    /// Whether the caller that started the trace asked for it to be recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Parses a `traceparent` header; `None` if it is malformed. Unknown parts of versions later than `00` are ignored.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = read_hex(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let trace_id = TraceId(read_hex(trace).filter(|bytes| *bytes != [0; 16])?);
        let [flags] = read_hex(flags)?;
        Some(Self { trace_id, span_id: SpanId::parse(span)?, is_sampled: flags & 1 == 1 })
    }

    /// Formats the context as a `traceparent` header.
    #[must_use]
    pub fn to_header(self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }

    /// Returns the context of another span in the same trace.
    #[must_use]
    pub fn at(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }
}

thread_local! {
    static CURRENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Returns the trace context of the running code, if any.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.get()
}

/// Runs `future` in the given trace context, or outside any trace.
pub fn with_context<F: Future>(context: Option<TraceContext>, future: F) -> WithContext<F> {
    WithContext { future, context }
}

pin_project! {
    /// Future returned by [`with_context`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct WithContext<F> {
        #[pin]
        future: F,
        context: Option<TraceContext>,
    }
}

/// Restores the previous context, even if a poll panics.
struct RestoreContext(Option<TraceContext>);

impl Drop for RestoreContext {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<F: Future> Future for WithContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _restore = RestoreContext(CURRENT.replace(*this.context));
        this.future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn header_is_parsed_and_formatted() {
        let context = TraceContext::parse(HEADER).unwrap();
        assert_eq!(context.to_header(), HEADER);
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(context.is_sampled);
        let unsampled = HEADER.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).unwrap().to_header(), unsampled);
    }

    #[test]
    fn parse_ignores_unknown_parts_of_later_versions() {
        let later = format!("cc{}-more", &HEADER[2..]);
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(HEADER));
        assert_eq!(TraceContext::parse(&format!("{HEADER}-more")), None);
    }

    #[test]
    fn parse_rejects_malformed_headers() {
        for header in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
            "00 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 01",
        ] {
            assert_eq!(TraceContext::parse(header), None, "{header}");
        }
    }

    #[test]
    fn zero_ids_are_replaced() {
        assert!(SpanId::parse(&SpanId::new(0).to_string()).is_some());
        assert_eq!(TraceId::new(0), TraceId::new(1));
    }

    #[test]
    fn context_is_visible_only_inside_its_future() {
        let context = TraceContext::parse(HEADER);
        let inner = || async { current() };
        let mut outer =
            pin!(with_context(context, async { (current(), with_context(None, inner()).await, current()) }));
        let mut task = Context::from_waker(Waker::noop());
        assert_eq!(outer.as_mut().poll(&mut task), Poll::Ready((context, None, context)));
        assert_eq!(current(), None);
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in ".{0,80}") {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(TraceContext::parse(&context.to_header()), Some(context));
            }
        }

        #[test]
        fn context_round_trips_through_its_header(trace in any::<u128>(), span in any::<u64>(), is_sampled in any::<bool>()) {
            let context = TraceContext { trace_id: TraceId::new(trace), span_id: SpanId::new(span), is_sampled };
            prop_assert_eq!(TraceContext::parse(&context.to_header()), Some(context));
        }
    }
}
