//! Suite of pages with a task each, read from `bench/browser/suite`.
//!
//! An entry represents one task for each of its surroundings and variants. Runners get resolved tasks; steps are
//! actions of the browser crate plus data for the runner.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Outcome;

const FILES: [&str; 3] =
    [include_str!("../suite/forms.toml"), include_str!("../suite/widgets.toml"), include_str!("../suite/sites.toml")];

/// Surrounding of the page of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surrounding {
    #[default]
    Plain,
    /// Frame of the same site.
    Frame,
    /// Frame of another site, in its own process.
    Foreign,
    /// Frame of another site in a frame of the same site.
    Nested,
    /// Open shadow root.
    Shadow,
    /// Appears after a delay.
    Late,
    /// Slides in.
    Moving,
    /// Covered by another element for a while.
    Covered,
}

impl Surrounding {
    /// Returns the number of frames between the page and the task.
    #[must_use]
    pub fn depth(self) -> u32 {
        match self {
            Self::Frame | Self::Foreign => 1,
            Self::Nested => 2,
            _ => 0,
        }
    }
}

#[derive(Deserialize)]
struct File {
    task: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// Without a page, the first step navigates.
    page: Option<String>,
    #[serde(default)]
    contexts: Vec<Surrounding>,
    #[serde(default)]
    variants: Vec<Map<String, Value>>,
    steps: Vec<Value>,
    title: String,
}

/// Task for a runner.
#[derive(Debug, Clone, Serialize)]
pub struct Task {
    pub name: String,
    #[serde(skip)]
    pub page: String,
    #[serde(skip)]
    pub surrounding: Surrounding,
    /// Start address, relative to the server.
    pub url: String,
    pub depth: u32,
    pub steps: Vec<Value>,
    /// Expected title of the page at the end.
    pub title: String,
}

/// Returns all tasks, in the order of the files.
///
/// # Errors
/// A file is invalid.
pub fn tasks() -> Outcome<Vec<Task>> {
    let mut tasks = Vec::new();
    for file in FILES {
        for entry in toml::from_str::<File>(file)?.task {
            let surroundings =
                if entry.contexts.is_empty() { vec![Surrounding::Plain] } else { entry.contexts.clone() };
            let variants = if entry.variants.is_empty() { vec![Map::new()] } else { entry.variants.clone() };
            for surrounding in &surroundings {
                for variant in &variants {
                    let url = match entry.page {
                        Some(_) => format!("/task/{}", tasks.len()),
                        None => "about:blank".to_owned(),
                    };
                    tasks.push(entry.task(*surrounding, variant, url));
                }
            }
        }
    }
    Ok(tasks)
}

impl Entry {
    fn task(&self, surrounding: Surrounding, variant: &Map<String, Value>, url: String) -> Task {
        let varied: Vec<String> = variant.values().map(ToString::to_string).collect();
        let around = if surrounding == Surrounding::Plain { String::new() } else { format!(", {surrounding:?}") };
        Task {
            name: format!("{}{around} {}", self.name, varied.join(" ")).trim().to_owned(),
            page: filled(self.page.as_deref().unwrap_or_default(), variant),
            surrounding,
            url,
            depth: surrounding.depth(),
            steps: self.steps.iter().map(|step| filled_value(step, variant)).collect(),
            title: filled(&self.title, variant),
        }
    }
}

fn filled(text: &str, variant: &Map<String, Value>) -> String {
    variant.iter().fold(text.to_owned(), |text, (name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.replace(&format!("{{{{{name}}}}}"), &value)
    })
}

/// Replaces a text that consists of a single placeholder by the value with its type.
fn filled_value(value: &Value, variant: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            name.and_then(|name| variant.get(name).cloned()).unwrap_or_else(|| filled(text, variant).into())
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), filled_value(value, variant)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
