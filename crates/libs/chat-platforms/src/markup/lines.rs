//! Markup that ends with the line.

/// Puts `mark` around the text of each non-blank line. Around spaces or several lines it has no effect.
pub(crate) fn mark_lines(text: &str, mark: char) -> String {
    let mark_line = |line: &str| {
        let inner = line.trim();
        if inner.is_empty() {
            return line.to_owned();
        }
        let (before, after) = (line.len() - line.trim_start().len(), line.trim_end().len());
        let (before, after) = (line.get(..before).unwrap_or_default(), line.get(after..).unwrap_or_default());
        format!("{before}{mark}{inner}{mark}{after}")
    };
    text.split('\n').map(mark_line).collect::<Vec<_>>().join("\n")
}

/// Puts `prefix` before each line.
pub(crate) fn prefix_lines(text: &str, prefix: &str) -> String {
    text.split('\n').map(|line| format!("{prefix}{line}")).collect::<Vec<_>>().join("\n")
}

/// Puts plain text between backticks, or three of them if it contains one.
pub(crate) fn code_in_backticks(text: &str) -> String {
    if text.trim().is_empty() {
        return text.to_owned();
    }
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("```{space}{}{space}```", without_fences(text))
}

/// Puts plain text in a fenced block.
pub(crate) fn block_in_backticks(text: &str) -> String {
    format!("```\n{}\n```", without_fences(text))
}

/// Breaks runs of three backticks with zero-width characters, which would otherwise start a code block in markup
/// without escapes.
pub(crate) fn break_backticks(text: &str) -> String {
    let mut broken = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        broken.push(character);
        if character == '`' && characters.peek().is_none_or(|next| *next == '`') {
            broken.push('\u{200b}');
        }
    }
    broken
}

/// Breaks runs of three backticks in code, which would otherwise end its block.
pub(crate) fn without_fences(text: &str) -> String {
    if text.contains("```") { text.replace("``", "`\u{200b}`") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_end_with_the_line() {
        assert_eq!(mark_lines(" a \n\nb", '*'), " *a* \n\n*b*");
        assert_eq!(prefix_lines("a\nb", "> "), "> a\n> b");
        assert_eq!((code_in_backticks("a"), code_in_backticks("a`b")), ("`a`".to_owned(), "```a`b```".to_owned()));
        for count in 3..9 {
            let fence = "`".repeat(count);
            assert_eq!(block_in_backticks(&format!("a{fence}b")).matches("```").count(), 2);
            assert_eq!(code_in_backticks(&fence).matches("```").count(), 2);
        }
    }
}
