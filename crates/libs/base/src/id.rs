//! Typed ids: a prefix and a time-ordered ULID in lower case, `agent_01jd3…`.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::trace::SpanId;
use crate::{Clock, Entropy};

/// Generates ids. The ids of one generator increase strictly, even within a millisecond or when the clock goes back, so
/// that sorting by id is sorting by creation.
#[derive(Debug, Clone)]
pub struct IdGenerator {
    clock: Clock,
    entropy: Entropy,
    last: Arc<Mutex<u128>>,
}

impl IdGenerator {
    #[must_use]
    pub fn new(clock: Clock, entropy: Entropy) -> Self {
        Self { clock, entropy, last: Arc::default() }
    }

    /// Returns the next id as 26 characters, without a prefix.
    #[must_use]
    pub fn next_ulid(&self) -> String {
        ulid_text(self.next_number())
    }

    /// Returns the next id as a number; [`ulid_text`] formats it.
    #[must_use]
    pub fn next_number(&self) -> u128 {
        let millis = u64::try_from(self.clock.now().as_millis()).unwrap_or(0);
        let mut last = self.last.lock();
        // Ids within the same millisecond are consecutive, which avoids a system call for each.
        *last = if millis > ulid::Ulid(*last).timestamp_ms() {
            ulid::Ulid::from_parts(millis, u128::from_le_bytes(self.entropy.bytes())).0
        } else {
            *last + 1
        };
        *last
    }

    /// Returns a span id that is unique for this generator.
    #[must_use]
    pub fn next_span(&self) -> SpanId {
        let [.., a, b, c, d, e, f, g, h] = self.next_number().to_be_bytes();
        SpanId::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Formats an id's number as the 26 characters after its prefix.
#[must_use]
pub fn ulid_text(number: u128) -> String {
    let mut text = ulid::Ulid(number).to_string();
    text.make_ascii_lowercase();
    text
}

/// Whether `text` is `prefix`, `_` and 26 lower-case Crockford characters.
#[must_use]
pub fn is_well_formed(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .is_some_and(|ulid| ulid.len() == 26 && ulid.bytes().all(|b| b"0123456789abcdefghjkmnpqrstvwxyz".contains(&b)))
}

/// Declares an id type: `typed_id!(/// docs. AgentId, "agent");`.
///
/// An id received from outside may be any string: an id that does not exist is simply not found, which answers 404.
#[macro_export]
macro_rules! typed_id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(::std::sync::Arc<str>);

        impl $name {
            #[must_use]
            pub fn generate(ids: &$crate::id::IdGenerator) -> Self {
                Self(format!(concat!($prefix, "_{}"), ids.next_ulid()).into())
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether `text` has the form of this id type, as opposed to a name.
            #[must_use]
            pub fn is_well_formed(text: &str) -> bool {
                $crate::id::is_well_formed($prefix, text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ::utoipa::PartialSchema for $name {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::schema::Schema> {
                ::utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(::utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("`", $prefix, "_` and a time-ordered id")))
                    .into()
            }
        }

        impl ::utoipa::ToSchema for $name {
            fn name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro makes public types wherever it is used")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{MockClock, Timestamp};

    typed_id!(ThingId, "thing");

    #[test]
    fn ids_increase_when_the_clock_goes_back() {
        let mock = MockClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let ids = IdGenerator::new(mock.clock(), Entropy::seeded(1));
        let mut previous = ThingId::generate(&ids);
        for round in 0..1000 {
            if round == 500 {
                mock.set(Timestamp::from_micros(1_600_000_000_000_000));
            }
            if round % 7 == 0 {
                mock.advance(Duration::from_millis(1));
            }
            let next = ThingId::generate(&ids);
            assert!(next > previous, "{next} after {previous}");
            assert!(ThingId::is_well_formed(next.as_str()));
            previous = next;
        }
    }

    #[test]
    fn names_are_not_well_formed_ids() {
        assert!(!ThingId::is_well_formed("thing_one"));
        assert!(!ThingId::is_well_formed("other_01arz3ndektsv4rrffq69g5fav"));
        assert!(ThingId::is_well_formed("thing_01arz3ndektsv4rrffq69g5fav"));
    }
}
