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
    let of = &message[kind];
    let description = describe(kind, of);
    let context = &message["context"];
    if context["forwarded"] == true || context["frequently_forwarded"] == true {
        content.add_quote(QuoteKind::Forwarded, "", &description);
    } else {
        content.add_text(&description);
    }
    if matches!(kind, "image" | "document" | "audio" | "video" | "sticker") {
        content.attach([Attachment {
            name: name(&of["filename"]),
            media_type: some_name(&of["mime_type"]),
            bytes: of["file_size"].as_u64(),
            source: source(of),
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

fn describe(kind: &str, of: &Value) -> String {
    match kind {
        "text" => string(&of["body"]),
        "image" | "document" | "audio" | "video" => string(&of["caption"]),
        "sticker" => named("Sticker", [""; 0]),
        "location" => location(of),
        "contacts" => parts(of).map(contact).collect::<Vec<_>>().join("\n"),
        "button" => string(&of["text"]),
        "interactive" => interactive(of),
        "order" => order(of),
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
    let of = |list: &'static str, field: &'static str| parts(&contact[list]).map(move |item| string(&item[field]));
    let names = [string(&contact["name"]["formatted_name"]), string(&contact["org"]["company"])];
    named("Contact", names.into_iter().chain(of("phones", "phone")).chain(of("emails", "email")))
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
