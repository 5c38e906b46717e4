//! What a model is shown of a page: what the daemon says about it, and then what the page says.

use agentd_engine::tools::ToolOutput;

#[derive(Debug, Default)]
pub(super) struct Shown {
    notes: Vec<String>,
    quoted: Vec<String>,
}

impl Shown {
    /// In the daemon's own words.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// What the page, or whoever made it, says.
    pub(super) fn quote(&mut self, text: &str) {
        self.quoted.push(text.to_owned());
    }

    pub(super) fn page(&mut self, url: &str, title: &str) {
        self.quote(&format!("{url}\n# {title}"));
    }

    pub(super) fn into_output(self) -> ToolOutput {
        let Self { mut notes, quoted } = self;
        if quoted.is_empty() {
            notes.push("Nothing is open.".to_owned());
        }
        notes.extend(quoted);
        ToolOutput::text(notes.join("\n"))
    }
}
