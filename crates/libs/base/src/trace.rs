//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): where in a trace something happens, and how code
//! without an argument for it learns of that.
//!
//! The ambient context is a value of the thread for as long as a future that was put [`within`] one is polled. It
//! decides nothing: it names what is logged, stored and sent.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Names a trace: 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Names a span within its trace: 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Lower-case digits alone, as the standard has it.
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
    /// All zeros name nothing; one stands for them.
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
    /// All zeros name nothing; one stands for them.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number.max(1).to_be_bytes())
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0
    }

    /// Reads 16 lower-case hex digits that are not all zero.
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

/// A place in a trace: what a `traceparent` header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: TraceId,
    /// The span that whatever happens here is a part of.
    pub span_id: SpanId,
    /// Whoever began the trace wants it recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` where it is not well-formed. Of a later version than `00` what is known of it counts.
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

    /// As a `traceparent` header.
    #[must_use]
    pub fn to_header(self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn at(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }
}

thread_local! {
    static CURRENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Where in a trace the running code is, if anywhere.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.get()
}

/// Has `future` run at a place in a trace, or outside of any.
pub fn within<F: Future>(context: Option<TraceContext>, future: F) -> Within<F> {
    Within { future, context }
}

pin_project! {
    /// What [`within`] makes.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Within<F> {
        #[pin]
        future: F,
        context: Option<TraceContext>,
    }
}

/// Puts back what was there before, also when a poll panics.
struct Entered(Option<TraceContext>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered(CURRENT.replace(*this.context));
        this.future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written() {
        let context = TraceContext::parse(GIVEN).unwrap();
        assert_eq!(context.to_header(), GIVEN);
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(context.is_sampled);
        let unsampled = GIVEN.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).unwrap().to_header(), unsampled);
    }

    #[test]
    fn of_a_later_version_the_beginning_counts() {
        let later = format!("cc{}-more", &GIVEN[2..]);
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(GIVEN));
        assert_eq!(TraceContext::parse(&format!("{GIVEN}-more")), None);
    }

    #[test]
    fn what_is_not_well_formed_is_nothing() {
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
    fn nobody_is_named_by_zeros() {
        assert!(SpanId::parse(&SpanId::new(0).to_string()).is_some());
        assert_eq!(TraceId::new(0), TraceId::new(1));
    }

    #[test]
    fn a_future_sees_its_place_and_nobody_else_does() {
        let context = TraceContext::parse(GIVEN);
        let inner = || async { current() };
        let mut outer = pin!(within(context, async { (current(), within(None, inner()).await, current()) }));
        let mut task = Context::from_waker(Waker::noop());
        assert_eq!(outer.as_mut().poll(&mut task), Poll::Ready((context, None, context)));
        assert_eq!(current(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,80}") {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(TraceContext::parse(&context.to_header()), Some(context));
            }
        }

        #[test]
        fn every_context_survives_its_header(trace in any::<u128>(), span in any::<u64>(), is_sampled in any::<bool>()) {
            let context = TraceContext { trace_id: TraceId::new(trace), span_id: SpanId::new(span), is_sampled };
            prop_assert_eq!(TraceContext::parse(&context.to_header()), Some(context));
        }
    }
}
