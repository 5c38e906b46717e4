//! Position of an event in the order of all events.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Position of an event in the order of all events. Opaque: compare and store it, but do not compute with it. A
/// restored backup renumbers events, see [`Db::database_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq {
    pub(crate) transaction: i64,
    pub(crate) number: i64,
}

impl Seq {
    /// Position before every event.
    pub const START: Self = Self { transaction: 0, number: 0 };
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.number)
    }
}

impl std::str::FromStr for Seq {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(transaction, number)| {
            Some(Self { transaction: transaction.parse().ok()?, number: number.parse().ok()? })
        });
        parsed.ok_or_else(|| "not a position in the event log".to_owned())
    }
}

impl Serialize for Seq {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
