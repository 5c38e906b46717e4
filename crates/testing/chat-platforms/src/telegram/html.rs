//! Telegram HTML parser. Stricter than Telegram: invalid nesting is rejected instead of ignored.

/// Tags without attributes.
const PLAIN: [&str; 11] = ["b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "code", "pre"];

/// Returns the text of `markup` without its tags.
///
/// # Errors
/// Returns the reason why Telegram refuses it.
pub fn parse(markup: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = markup;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        rest = match character {
            '<' => {
                let (tag, after) = after.split_once('>').ok_or("unclosed start tag")?;
                match tag.strip_prefix('/') {
                    Some(name) if open.last().map(String::as_str) == Some(name) => {
                        open.pop();
                    }
                    Some(name) => return Err(format!("unexpected end tag \"{name}\"")),
                    None => open.push(start(tag, &open)?),
                }
                after
            }
            '&' => {
                let (entity, after) = after.split_once(';').ok_or("unclosed entity")?;
                text.push(match entity {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    _ => return Err(format!("unknown entity \"{entity}\"")),
                });
                after
            }
            '>' => return Err("a bare \">\"".to_owned()),
            other => {
                text.push(other);
                after
            }
        };
    }
    match open.last() {
        None => Ok(text),
        Some(name) => Err(format!("can't find end tag corresponding to start tag \"{name}\"")),
    }
}

/// Returns the name of a tag that is valid here.
fn start(tag: &str, open: &[String]) -> Result<String, String> {
    let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    let is_open = |name: &str| open.iter().any(|other| other == name);
    let value = |attribute: &str| attributes.strip_prefix(attribute)?.strip_prefix("=\"")?.strip_suffix('"');
    let is_known = match name {
        "a" => value("href").is_some_and(|url| !url.is_empty() && !url.contains('"')),
        "code" if open.last().is_some_and(|last| last == "pre") => {
            attributes.is_empty() || value("class").is_some_and(|class| class.starts_with("language-"))
        }
        "blockquote" => attributes.is_empty() || attributes == "expandable",
        "tg-spoiler" => attributes.is_empty(),
        name => PLAIN.contains(&name) && attributes.is_empty(),
    };
    if !is_known {
        return Err(format!("unsupported start tag \"{tag}\""));
    }
    if matches!(name, "a" | "blockquote" | "pre") && is_open(name) {
        return Err(format!("\"{name}\" in itself"));
    }
    if is_open("code") || (is_open("pre") && name != "code") {
        return Err(format!("\"{name}\" in code"));
    }
    Ok(name.to_owned())
}
