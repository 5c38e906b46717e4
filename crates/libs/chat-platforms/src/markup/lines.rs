//! Marks of platforms that end with the line.

/// `mark` around each line that has text, inside of its spaces: around spaces, or over several lines, it means nothing.
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

/// `sign` before each line.
pub(crate) fn begin_lines(text: &str, sign: &str) -> String {
    text.split('\n').map(|line| format!("{sign}{line}")).collect::<Vec<_>>().join("\n")
}

/// Plain text between backticks: three of them where it holds one.
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

/// Plain text in a block of three backticks.
pub(crate) fn block_in_backticks(text: &str) -> String {
    format!("```\n{}\n```", without_fences(text))
}

/// Plain text in which no three backticks stand together, whatever follows it: they would begin a block of code where
/// the markup has no escapes.
pub(crate) fn part_backticks(text: &str) -> String {
    let mut parted = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        parted.push(character);
        if character == '`' && characters.peek().is_none_or(|next| *next == '`') {
            parted.push('\u{200b}');
        }
    }
    parted
}

/// Plain text of code: three backticks would end its block, so characters without width part them.
pub(crate) fn without_fences(text: &str) -> String {
    if text.contains("```") { text.replace("``", "`\u{200b}`") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_end_with_the_line() {
        assert_eq!(mark_lines(" a \n\nb", '*'), " *a* \n\n*b*");
        assert_eq!(begin_lines("a\nb", "> "), "> a\n> b");
        assert_eq!((code_in_backticks("a"), code_in_backticks("a`b")), ("`a`".to_owned(), "```a`b```".to_owned()));
        for count in 3..9 {
            let fence = "`".repeat(count);
            assert_eq!(block_in_backticks(&format!("a{fence}b")).matches("```").count(), 2);
            assert_eq!(code_in_backticks(&fence).matches("```").count(), 2);
        }
    }
}
