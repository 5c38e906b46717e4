//! Message contents.

use serde_json::Value;

use super::files::source;
use crate::content::{Content, QuoteKind, named};
use crate::incoming_text::{name, some_name};
use crate::message::Attachment;

/// Maximum number of contacts per message and of products per order.
const MAX_PARTS: usize = 50;

/// Reads the contents of a user message.
pub(super) fn content(message: &Value) -> Content {
    let mut content = Content::default();
    let kind = message["type"].as_str().unwrap_or_default();
    let media = &message[kind];
    let description = describe(kind, media);
    let context = &message["context"];
    if context["forwarded"] == true || context["frequently_forwarded"] == true {
        content.add_quote(QuoteKind::Forwarded, "", &description);
    } else {
        content.add_text(&description);
    }
    if matches!(kind, "image" | "document" | "audio" | "video" | "sticker") {
        content.attach([Attachment {
            name: name(&media["filename"]),
            media_type: some_name(&media["mime_type"]),
            bytes: media["file_size"].as_u64(),
            source: source(media),
        }]);
    }
    let product = &context["referred_product"];
    if product.is_object() {
        content.add_text(&named("Product", [name(&product["product_retailer_id"])]));
    }
    let advertisement = &message["referral"];
    if advertisement.is_object() {
        let details = ["headline", "body", "source_url"].map(|field| string(&advertisement[field]));
        content.add_text(&named("Advertisement", details));
    }
    content
}

fn describe(kind: &str, media: &Value) -> String {
    match kind {
        "text" => string(&media["body"]),
        "image" | "document" | "audio" | "video" => string(&media["caption"]),
        "sticker" => named("Sticker", [""; 0]),
        "location" => location(media),
        "contacts" => parts(media).map(contact).collect::<Vec<_>>().join("\n"),
        "button" => string(&media["text"]),
        "interactive" => interactive(media),
        "order" => order(media),
        _ => String::new(),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MAX_PARTS)
}

fn location(location: &Value) -> String {
    let position = match (location["latitude"].as_f64(), location["longitude"].as_f64()) {
        (Some(latitude), Some(longitude)) => format!("{latitude}, {longitude}"),
        _ => String::new(),
    };
    named("Location", [string(&location["name"]), string(&location["address"]), position])
}

fn contact(contact: &Value) -> String {
    let values_of =
        |list: &'static str, field: &'static str| parts(&contact[list]).map(move |item| string(&item[field]));
    let names = [string(&contact["name"]["formatted_name"]), string(&contact["org"]["company"])];
    named("Contact", names.into_iter().chain(values_of("phones", "phone")).chain(values_of("emails", "email")))
}

fn interactive(reply: &Value) -> String {
    let chosen = ["button_reply", "list_reply"].map(|kind| string(&reply[kind]["title"])).concat();
    let form = &reply["nfm_reply"];
    if chosen.is_empty() && form.is_object() {
        return named("Form", [string(&form["body"]), string(&form["response_json"])]);
    }
    chosen
}

fn order(order: &Value) -> String {
    let item = |item: &Value| {
        let price = match (&item["item_price"], item["currency"].as_str()) {
            (Value::Number(price), Some(currency)) => format!(", {price} {currency}"),
            _ => String::new(),
        };
        format!("{} × {}{price}", item["quantity"], string(&item["product_retailer_id"]))
    };
    let items = named("Order", parts(&order["product_items"]).map(item));
    let text = string(&order["text"]);
    if text.is_empty() { items } else { format!("{items}\n{text}") }
}
