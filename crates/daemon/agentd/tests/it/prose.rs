//! Catches relapses into vague wording in comments, documentation and texts of the web UI.
//!
//! The words of each row have an ordinary equivalent, which the test suggests. Spelling is checked by `make check`.

use std::path::{Path, PathBuf};

use crate::tidy::root;

/// Vague terms and what to write instead.
const TERMS: [(&str, &str); 19] = [
    ("anew", "again"),
    ("anybody", "a client, another process"),
    ("came to", "results, outcome, totals"),
    ("comes to", "results, outcome, totals"),
    ("given up", "abandoned; of deliveries: dead-lettered"),
    ("gives up", "stops retrying, fails"),
    ("go on", "continue, resume"),
    ("goes on", "continues, resumes"),
    ("going on", "running, in progress"),
    ("gone over", "processed"),
    ("is away", "is unavailable"),
    ("let go", "released"),
    ("model inside", "built-in model"),
    ("nobody", "no client, no process"),
    ("so long", "for N seconds"),
    ("so many", "up to N"),
    ("somebody", "the user, another process"),
    ("under way", "running, in progress"),
    ("whoever", "the client, the owner"),
];

/// Beginnings of doc comments that leave the subject out.
const BANNED_BEGINNINGS: [&str; 9] =
    ["What ", "Whoever ", "Those ", "Of ", "How ", "Or ", "There ", "The same ", "So many "];

/// Accounts of the operating system and test data are called `nobody`.
const EXCEPTIONS: [&str; 3] = ["`nobody`", "nobody:x:", "User id of"];

/// Returns the files below a folder with one of the extensions.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["target", "node_modules", "dist", "data", "assets"].contains(&name) && !name.starts_with('.') {
                found.extend(files(&path, extensions));
            }
        } else if path.extension().and_then(|extension| extension.to_str()).is_some_and(|e| extensions.contains(&e)) {
            found.push(path);
        }
    }
    found
}

fn contains_term(line: &str, term: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(term).any(|(start, _)| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_letter(line[..start].chars().next_back()) && !is_letter(line[start + term.len()..].chars().next())
    })
}

/// Returns the vague terms of a line of prose.
fn vague_terms(line: &str) -> Vec<String> {
    if EXCEPTIONS.iter().any(|exception| line.contains(exception)) {
        return Vec::new();
    }
    let found = TERMS.iter().filter(|(term, _)| contains_term(line, term));
    found.map(|(term, instead)| format!("`{term}`: write {instead}")).collect()
}

/// Returns the comment of a line of code, without its marks.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).or_else(|| line.strip_prefix("//"))
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} places:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn comments_contain_no_vague_terms() {
    let mut problems = Vec::new();
    for folder in ["crates", "bench"] {
        for path in files(&root().join(folder), &["rs"]) {
            if path.ends_with("tests/it/prose.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let place =
                |number: usize| format!("{}:{}", path.strip_prefix(root()).expect("below").display(), number + 1);
            let mut is_in_doc = false;
            for (number, line) in text.lines().enumerate() {
                let Some(comment) = comment(line) else {
                    is_in_doc = false;
                    continue;
                };
                problems.extend(vague_terms(comment).iter().map(|term| format!("{} {term}", place(number))));
                let is_doc = line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
                if is_doc && !is_in_doc && BANNED_BEGINNINGS.iter().any(|words| comment.trim().starts_with(words)) {
                    problems.push(format!("{} begins without a subject: {}", place(number), comment.trim()));
                }
                is_in_doc = is_doc;
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn documents_and_ui_texts_contain_no_vague_terms() {
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    paths.extend(files(&root().join("docs"), &["md"]));
    let ui = files(&root().join("ui/src"), &["ts"]);
    paths.extend(ui.into_iter().filter(|path| path.ends_with("texts.ts")));
    let mut problems = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a text file");
        let is_code = path.extension().is_some_and(|extension| extension == "ts");
        for (number, line) in text.lines().enumerate() {
            // Keys of texts are not shown.
            let prose = if is_code { line.split_once(':').map_or("", |(_, value)| value) } else { line };
            let found = vague_terms(prose);
            let file = path.strip_prefix(root()).expect("below");
            problems.extend(found.iter().map(|term| format!("{}:{} {term}", file.display(), number + 1)));
        }
    }
    assert_none(&problems);
}
