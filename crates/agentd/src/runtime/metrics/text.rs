//! Prometheus' text exposition format, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::Write;

use bytes::Bytes;

use crate::runtime::recorder::BucketCounts;

#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.push(format_args!(
            "# HELP {name} {}\n# TYPE {name} {kind}\n",
            help.replace('\\', "\\\\").replace('\n', "\\n")
        ));
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (position, (label, value)) in labels.iter().enumerate() {
            self.0.push(if position == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.push(format_args!(" {value}\n"));
    }

    /// The lines of one histogram, whose family was named before.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], recorded: &BucketCounts) {
        let bounds = recorded.bounds_us.iter().map(|bound| seconds(*bound).to_string());
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (bound, in_bucket) in bounds.chain(["+Inf".to_owned()]).zip(&recorded.counts) {
            count += in_bucket;
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.sample(&bucket, &labels, float(count));
        }
        self.sample(&format!("{name}_sum"), labels, seconds(recorded.sum_us));
        self.sample(&format!("{name}_count"), labels, float(count));
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(arguments);
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people and graphs")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

fn seconds(micros: u64) -> f64 {
    float(micros) / 1e6
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_label_value_stays_on_its_line_and_reads_back(value in "\\PC*|[\\n\"\\\\]{0,8}") {
            let mut text = Text::default();
            text.sample("m", &[("l", &value)], 1.5);
            let bytes = text.into_bytes();
            let line = std::str::from_utf8(&bytes).unwrap();
            let inner = line.strip_prefix("m{l=\"").and_then(|rest| rest.strip_suffix("\"} 1.5\n")).unwrap();
            prop_assert!(!inner.contains('\n'));
            let mut read = String::new();
            let mut characters = inner.chars();
            while let Some(character) = characters.next() {
                read.push(match (character, character == '\\') {
                    (_, true) => match characters.next() { Some('n') => '\n', Some(other) => other, None => panic!() },
                    (other, false) => { prop_assert!(other != '"'); other }
                });
            }
            prop_assert_eq!(read, value);
        }
    }
}
