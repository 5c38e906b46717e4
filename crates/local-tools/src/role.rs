//! What a parameter is for, as far as its name, description and type tell.

use crate::form::{Parameter, Shape};
use crate::words::{stem, unit, words};

/// What a path may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wants {
    File,
    Folder,
    Either,
}

/// In the order in which they take their piece of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Old,
    New,
    FromUnit,
    ToUnit,
    Url,
    Email,
    Code,
    Command,
    Path(Wants),
    Expression,
    Person,
    Language,
    Query,
    Place,
    Content,
    Number,
    Other,
}

pub(crate) fn role(parameter: &Parameter) -> Role {
    let any = |stems: &[String], wanted: &[&str]| wanted.iter().any(|word| stems.contains(&stem(word)));
    let has = |wanted: &[&str]| any(&parameter.stems, wanted);
    let only = |wanted: &[&str]| parameter.stems.len() == 1 && has(wanted);
    let format = match &parameter.shape {
        Shape::Integer { .. } | Shape::Number { .. } => return Role::Number,
        Shape::Text { format, .. } => format.as_deref().unwrap_or_default(),
        _ => "",
    };
    let measures = matches!(&parameter.shape, Shape::Choice(values) if values.len() > 3 && values.iter().all(|value| {
        value.as_str().is_some_and(|name| unit(&name.to_lowercase()).is_some())
    }));
    if has(&["unit"]) || measures {
        if has(&["to", "target", "output", "dest", "destination", "into"]) {
            return Role::ToUnit;
        }
        if has(&["from", "source", "input"]) {
            return Role::FromUnit;
        }
    }
    if has(&["old", "before"]) {
        return Role::Old;
    }
    if has(&["new", "replacement", "after"]) && !has(&["path", "file", "name"]) {
        return Role::New;
    }
    if matches!(format, "uri" | "url" | "uri-reference") || has(&["url", "uri", "link", "href", "website"]) {
        return Role::Url;
    }
    if format == "email" || has(&["email", "mail"]) {
        return Role::Email;
    }
    if has(&["path", "file", "filename", "filepath", "folder", "directory", "dir"]) {
        // What stands behind a semicolon or in brackets is said of it besides.
        let clause = parameter.description.split([';', '(']).next().unwrap_or_default();
        let clause: Vec<String> = words(clause).into_iter().map(|word| word.stem).collect();
        let says = |wanted: &[&str]| any(&clause, wanted);
        let folder = has(&["folder", "directory", "dir"]) || says(&["folder", "directory", "dir"]);
        let file = has(&["file", "filename", "filepath"]) || says(&["file"]);
        return Role::Path(match (file, folder) {
            (true, false) => Wants::File,
            (false, true) => Wants::Folder,
            _ => Wants::Either,
        });
    }
    if has(&["code", "script", "source", "snippet", "program"]) {
        return Role::Code;
    }
    if has(&["command", "cmd", "shell"]) {
        return Role::Command;
    }
    if has(&["expression", "formula", "equation", "math", "calculation"]) {
        return Role::Expression;
    }
    if has(&["recipient", "person", "contact", "receiver", "user", "username", "assignee"]) || only(&["to"]) {
        return Role::Person;
    }
    if has(&["pattern", "query", "search", "regex", "keyword", "term", "topic", "question"]) || only(&["q"]) {
        return Role::Query;
    }
    if has(&["language", "lang", "locale"]) {
        return Role::Language;
    }
    if has(&["city", "location", "place", "town", "country", "region", "destination", "address"]) {
        return Role::Place;
    }
    if has(&["text", "message", "content", "body", "note", "comment", "description", "title", "subject", "summary"]) {
        return Role::Content;
    }
    Role::Other
}
