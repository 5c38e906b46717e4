//! Rendering of the selected blocks as text.

use std::collections::HashSet;

use crate::block::{Block, BlockKind, ParsedPage};
use crate::page::{MAX_LINKS, MAX_TEXT_BYTES, ReadablePage, truncate};
use crate::{inline, selection};

const MAX_INDENT: usize = 8;

pub(crate) fn page(read: ParsedPage) -> ReadablePage {
    let chosen = selection::select(&read.blocks);
    let mut text = String::new();
    let mut before: Option<&Block> = None;
    // Each URL is shown only once.
    let mut shown: HashSet<&str> = HashSet::new();
    let mut address = |number: usize| {
        let address = read.addresses.get(number)?.as_str();
        (shown.len() < MAX_LINKS && shown.insert(address)).then_some(address)
    };
    for (block, _) in read.blocks.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
        if let Some(before) = before {
            text.push_str(if are_joined(before, block) { "\n" } else { "\n\n" });
        }
        let starts_table = !before.is_some_and(|before| matches!(before.form, BlockKind::Row { .. }));
        let rendered = inline::with_links(&block.text, &mut address);
        write(block, &rendered, starts_table, &mut text);
        before = Some(block);
    }
    let mut is_truncated = truncate(&mut text, MAX_TEXT_BYTES) || read.is_truncated;
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    let of_chosen =
        read.blocks.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).flat_map(|(block, _)| block.links);
    for link in of_chosen {
        if !seen.insert(link.url.clone()) {
            continue;
        }
        if links.len() == MAX_LINKS {
            is_truncated = true;
            break;
        }
        links.push(link);
    }
    ReadablePage { title: read.title, text, links, is_truncated }
}

/// Whether two blocks are not separated by an empty line.
fn are_joined(before: &Block, block: &Block) -> bool {
    matches!(
        (&before.form, &block.form),
        (BlockKind::Row { .. }, BlockKind::Row { .. }) | (BlockKind::Item { .. }, BlockKind::Item { .. })
    )
}

/// Writes a block with the rendered text `rendered`.
fn write(block: &Block, rendered: &str, starts_table: bool, text: &mut String) {
    let body = match &block.form {
        BlockKind::Paragraph => rendered.to_owned(),
        BlockKind::Heading(level) => format!("{} {}", "#".repeat(usize::from(*level)), rendered),
        BlockKind::Item { depth, marker } => {
            let indent = "  ".repeat(depth.saturating_sub(1).min(MAX_INDENT));
            let marker = if marker.is_empty() { "  ".to_owned() } else { format!("{marker} ") };
            format!("{indent}{marker}{}", rendered.replace('\n', &format!("\n{indent}  ")))
        }
        BlockKind::Code => {
            let fence = fence(rendered);
            format!("{fence}\n{rendered}\n{fence}")
        }
        BlockKind::Row { cells, is_header } => {
            let row = format!("| {rendered} |");
            if *is_header && starts_table { format!("{row}\n|{}", " --- |".repeat(*cells)) } else { row }
        }
    };
    if block.is_quote {
        for (number, line) in body.lines().enumerate() {
            text.push_str(if number == 0 { "> " } else { "\n> " });
            text.push_str(line);
        }
    } else {
        text.push_str(&body);
    }
}

/// Returns a fence longer than any in the code, so that the code cannot end it.
fn fence(code: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in code.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat((longest + 1).clamp(3, 100))
}
