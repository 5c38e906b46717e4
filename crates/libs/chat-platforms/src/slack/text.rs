//! Conversion of Slack's text format to plain text (<https://docs.slack.dev/messaging/formatting-message-text>).

/// Returns plain text without mentions of the `own` users, and whether there was one.
pub(super) fn to_plain_text(text: &str, own: &[&str]) -> (String, bool) {
    let mut plain = String::with_capacity(text.len());
    let mut is_mentioned = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(&unescape(before));
        // User input is escaped, so this starts Slack syntax.
        let Some((inside, behind)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            break;
        };
        rest = behind;
        let (target, label) = inside.split_once('|').unwrap_or((inside, ""));
        match target.strip_prefix('@') {
            Some(user) if own.contains(&user) => is_mentioned = true,
            _ => plain.push_str(&unescape(&format_reference(target, label))),
        }
    }
    plain.push_str(&unescape(rest));
    (plain.trim().to_owned(), is_mentioned)
}

/// Formats a user, a channel, a special mention, or a link.
fn format_reference(target: &str, label: &str) -> String {
    let named = |sigil: char, id: &str| format!("{sigil}{}", if label.is_empty() { id } else { label });
    if let Some(user) = target.strip_prefix('@') {
        return named('@', user);
    }
    if let Some(channel) = target.strip_prefix('#') {
        return named('#', channel);
    }
    match target.strip_prefix('!') {
        // A date or a user group: the label is the fallback text.
        Some(_) if !label.is_empty() => label.to_owned(),
        Some(command) => format!("@{command}"),
        // Slack expands `x.y` to `http://x.y`.
        None if label.is_empty() || target.ends_with(&format!("//{label}")) || label == target => target.to_owned(),
        None if target.strip_prefix("mailto:") == Some(label) => label.to_owned(),
        None => format!("{label} ({target})"),
    }
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_text_is_converted() {
        for (text, expected) in [
            ("<@U0> hi &lt;b&gt; &amp;amp;", ("hi <b> &amp;", true)),
            ("ask <@U1|ada> and <@U2>", ("ask @ada and @U2", false)),
            ("in <#C1|general> <!here> <!subteam^S1|@team>", ("in #general @here @team", false)),
            ("<https://x.y|here> <https://x.y/?a=1&amp;b=2>", ("here (https://x.y) https://x.y/?a=1&b=2", false)),
            ("<http://x.y|x.y> <mailto:a@b.c|a@b.c>", ("http://x.y a@b.c", false)),
            ("<!date^1^{date}|today> < <a &lt;", ("today < <a <", false)),
        ] {
            let (plain, is_mentioned) = to_plain_text(text, &["U0"]);
            assert_eq!((plain.as_str(), is_mentioned), expected, "{text}");
        }
    }
}
