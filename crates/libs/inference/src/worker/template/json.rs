//! `tojson` in Python's format, on which models were trained: a space after each comma and colon, and no HTML escapes
//! as in Jinja's own filter.

use std::io;

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

pub(super) fn to_json(value: Value, arguments: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = arguments.get("indent")?;
    // Accepted without effect: the output never escapes other alphabets, and is never reordered.
    let _: Option<bool> = arguments.get("ensure_ascii")?;
    let _: Option<bool> = arguments.get("sort_keys")?;
    let _: Option<Value> = arguments.get("separators")?;
    arguments.assert_all_used()?;
    let text = match indent {
        None => serialize(&value, Spaced),
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            serialize(&value, PrettyFormatter::with_indent(spaces.as_bytes()))
        }
    };
    text.map(Value::from_safe_string).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn serialize(value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut buffer = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut buffer, formatter))?;
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Single-line formatter.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
