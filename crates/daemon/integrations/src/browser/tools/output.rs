//! Tool output about a page: notes of the daemon, followed by text of the page.

use agentd_engine::tools::ToolOutput;

#[derive(Debug, Default)]
pub(super) struct PageOutput {
    notes: Vec<String>,
    quoted: Vec<String>,
}

impl PageOutput {
    /// Adds a note of the daemon.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Adds text that originates from the page.
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
