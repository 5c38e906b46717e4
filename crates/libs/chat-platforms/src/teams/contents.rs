//! Contents of activities, including forwarded and answered messages.

use serde_json::Value;

use super::files::source;
use super::html::{self, HtmlText, decode_entities};
use crate::content::{Content, QuoteKind, mention_alone, named};
use crate::incoming_text::{id, name, text as clean};
use crate::message::Attachment;

/// Maximum number of mentions that are read.
const MAX_MENTIONS: usize = 50;
/// Maximum number of attachments that are read.
const MAX_ATTACHMENTS: usize = 50;
/// Maximum length of a card's text.
const MAX_CARD: usize = 4_000;
const MAX_DEPTH: usize = 12;
/// Content type of file attachments.
const FILE: &str = "application/vnd.microsoft.teams.file.download.info";
const CARDS: [&str; 2] = ["application/vnd.microsoft.card", "application/vnd.microsoft.teams.card"];
/// Card fields with text.
const CARD_TEXTS: [&str; 7] = ["title", "subtitle", "summary", "text", "inlines", "label", "value"];
/// Card fields with nested parts.
const CARD_PARTS: [&str; 9] = ["body", "sections", "items", "columns", "facts", "rows", "cells", "content", "fallback"];

/// Returns the contents, and whether they mention the bot.
pub(super) fn content(activity: &Value) -> (Content, bool) {
    let mut content = Content::default();
    let attachments = || activity["attachments"].as_array().into_iter().flatten().take(MAX_ATTACHMENTS);
    let own_names = own_names(activity);
    let mut is_mentioned = mentions(activity).any(|mention| is_own(activity, mention));
    let text = text(activity, &own_names);
    let kind = |attachment: &Value| id(&attachment["contentType"]).unwrap_or_default();
    let html = attachments().find(|attachment| kind(attachment).starts_with("text/html"));
    let html = html.and_then(|attachment| attachment["content"].as_str()).map(|html| html::read(html, &own_names));
    let HtmlText { text: html, quotes, is_mentioned: is_named_in_html } = html.unwrap_or_default();
    is_mentioned |= is_named_in_html;
    for (author, text) in &quotes {
        content.add_quote(QuoteKind::Answered, author, text);
    }
    // The text of a reply may repeat the quoted message.
    let is_html_better = text.is_empty() || (!quotes.is_empty() && !html.is_empty());
    content.add_text(if is_html_better { &html } else { &text });
    for attachment in attachments() {
        match kind(attachment).as_str() {
            "messageReference" if quotes.is_empty() => add_reference(attachment, &mut content),
            "messageReference" => {}
            "forwardedMessageReference" => add_forwarded(attachment, &mut content),
            kind if kind.starts_with("text/html") || kind.is_empty() => {}
            kind if CARDS.iter().any(|card| kind.starts_with(card)) => {
                let mut card = String::new();
                push_card(&attachment["content"], MAX_DEPTH, &mut card);
                content.add_quote(QuoteKind::Forwarded, "", &card);
            }
            kind => content.attach([file(attachment, kind, &activity["serviceUrl"])]),
        }
    }
    let sent = &activity["value"];
    if !content.has_own() && !sent.is_null() {
        content.add_text(&named("Button", [sent.as_str().map_or_else(|| sent.to_string(), str::to_owned)]));
    }
    if is_mentioned && content.is_empty() {
        content.add_text(&mention_alone());
    }
    (content, is_mentioned)
}

fn mentions(activity: &Value) -> impl Iterator<Item = &Value> {
    let entities = activity["entities"].as_array().into_iter().flatten();
    entities.filter(|entity| entity["type"] == "mention").take(MAX_MENTIONS)
}

/// Returns the decoded text between `<at>` and `</at>`.
fn mentioned_name(markup: &str) -> Option<String> {
    let (_, inner) = markup.strip_prefix("<at").and_then(|rest| rest.strip_suffix("</at>"))?.split_once('>')?;
    Some(decode_entities(inner).trim().to_owned())
}

/// Whether the mention refers to the bot.
fn is_own(activity: &Value, mention: &Value) -> bool {
    let mentioned = &mention["mentioned"]["id"];
    mentioned.is_string() && *mentioned == activity["recipient"]["id"]
}

/// Returns the names by which the message mentions the bot.
fn own_names(activity: &Value) -> Vec<String> {
    let names = mentions(activity).filter(|mention| is_own(activity, mention)).flat_map(|mention| {
        [mention["text"].as_str().and_then(mentioned_name), Some(name(&mention["mentioned"]["name"]))]
    });
    names.flatten().filter(|name| !name.is_empty()).collect()
}

/// Returns the text without mentions of the bot; other mentions are replaced by names.
fn text(activity: &Value, own_names: &[String]) -> String {
    let text = clean(activity["text"].as_str().unwrap_or_default());
    let (mut plain, mut rest, mut count) = (String::new(), text.as_str(), 0);
    while let Some((before, after)) = rest.split_once("<at")
        && count < MAX_MENTIONS
    {
        count += 1;
        plain.push_str(&decode_entities(before));
        let name = after.split_once("</at>").and_then(|(markup, behind)| Some((markup.split_once('>')?.1, behind)));
        let Some((name, behind)) = name else {
            plain.push_str("<at");
            rest = after;
            continue;
        };
        let name = decode_entities(name);
        if !own_names.iter().any(|own| own == name.trim()) {
            plain.push_str(&name);
        }
        rest = behind;
    }
    plain.push_str(&decode_entities(rest));
    clean(&plain)
}

/// Returns the content of a reference, which is a JSON object or JSON text.
fn reference(attachment: &Value) -> Value {
    match &attachment["content"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        content => content.clone(),
    }
}

fn add_reference(attachment: &Value, content: &mut Content) {
    let reference = reference(attachment);
    let preview = reference["messagePreview"].as_str().unwrap_or_default();
    content.add_quote(QuoteKind::Answered, &sender_name(&reference["messageSender"]), &decode_entities(preview));
}

fn add_forwarded(attachment: &Value, content: &mut Content) {
    let reference = reference(attachment);
    let text = reference["originalMessageContent"].as_str().unwrap_or_default();
    let author = sender_name(&reference["originalMessageSender"]);
    content.add_quote(QuoteKind::Forwarded, &author, &html::read(text, &[]).text);
}

fn sender_name(sender: &Value) -> String {
    let user = name(&sender["user"]["displayName"]);
    if user.is_empty() { name(&sender["application"]["displayName"]) } else { user }
}

/// Appends the texts of a card, one per line.
fn push_card(part: &Value, depth: usize, card: &mut String) {
    let Some(remaining_depth) = depth.checked_sub(1) else { return };
    if card.len() >= MAX_CARD {
        return;
    }
    match part {
        Value::String(text) if !text.trim().is_empty() => {
            if !card.is_empty() {
                card.push('\n');
            }
            card.push_str(text);
        }
        Value::Array(parts) => parts.iter().for_each(|part| push_card(part, remaining_depth, card)),
        Value::Object(_) => {
            for field in CARD_TEXTS.iter().chain(&CARD_PARTS) {
                push_card(&part[*field], remaining_depth, card);
            }
        }
        _ => {}
    }
}

fn file(attachment: &Value, kind: &str, service_url: &Value) -> Attachment {
    Attachment {
        name: name(&attachment["name"]),
        media_type: (kind != FILE).then(|| kind.to_owned()),
        bytes: None,
        source: source(attachment, service_url),
    }
}
