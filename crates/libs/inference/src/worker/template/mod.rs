//! The prompt, by the chat template that the model file carries.
//!
//! Templates are written for Python's Jinja; what they use beyond the language itself is provided
//! here: `raise_exception`, `strftime_now`, `tojson` with `indent`, Python's string and dict
//! methods, `break` and `continue`. A template comes out of a file that a user put there, so it has
//! a bounded amount of work.
//!
//! Invariant: no message can forge a turn. Control tokens spelled out in a message are broken up
//! before the template sees them, and so are tokens that a file does not call control tokens although
//! its template, or their form, says that they part turns, and the markers of tool calls.

mod conversation;
mod json;
#[cfg(test)]
mod tests;

use agentd_base::Timestamp;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::json;

use self::conversation::{TemplateMessage, fold};
use crate::worker::tool_calls::{ToolCallReader, ToolFormat};
use crate::{ChatMessage, FunctionCall, ToolCall, ToolDefinition};

/// Enough for a conversation of thousands of messages; an endless loop ends within a second.
const FUEL: u64 = 5_000_000;

/// Sent when a request names no system prompt.
pub(crate) const DEFAULT_SYSTEM_PROMPT: &str = "You are a helpful assistant.";

/// Used for files that carry no template.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                      {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// What opens the reasoning of a model whose template writes it into the prompt.
const OPEN_REASONING: &str = "<think>";
/// What is said when a template is probed.
const PROBE_SYSTEM: &str = "You look up codes.";
const PROBE_ANSWER: &str = "Code 7431 stands for amber.";

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the model file's chat template is not one that can be read: {0}")]
    Syntax(String),
    #[error("the model file's chat template refuses this conversation: {0}")]
    Refused(String),
}

/// Tokens of a vocabulary that are recognized wherever a text spells them out.
#[derive(Debug, Default)]
pub struct SpecialTokens {
    /// What the file calls control tokens.
    pub control: Vec<String>,
    /// What it calls user-defined: markers of turns in some files, and in the same ones ordinary
    /// text such as runs of blanks or HTML.
    pub user_defined: Vec<String>,
}

impl SpecialTokens {
    /// Those that a message must not contain, longest first. Ordinary text among the user-defined
    /// ones is left alone: breaking it up would only make the model's work harder.
    fn into_defused(self, template: &str) -> Vec<String> {
        let markers = self.user_defined.into_iter().filter(|token| has_marker_form(token) || template.contains(token));
        let mut tokens: Vec<String> = self.control.into_iter().chain(markers).collect();
        tokens.retain(|token| token.chars().count() > 2 && token.chars().any(|c| !c.is_whitespace()));
        tokens.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        tokens.dedup();
        tokens
    }
}

/// `<|user|>`, and the same with the wide bars that some families use.
fn has_marker_form(token: &str) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(begin, end)| token.starts_with(begin) && token.ends_with(end))
}

/// The template of one model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    /// Longest first.
    to_defuse: Vec<String>,
    tool_format: Option<ToolFormat>,
    reply_prefix: &'static str,
}

impl ChatTemplate {
    /// Compiles `source`; `None` takes the ChatML form.
    ///
    /// # Errors
    /// When it is not Jinja.
    pub fn new(
        source: Option<String>,
        bos_token: String,
        eos_token: String,
        mut tokens: SpecialTokens,
        now: Timestamp,
    ) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()
                .map_err(|error| TemplateError::Syntax(error.to_string()))?,
        );
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", move |format: String| -> Result<String, Error> {
            jiff::fmt::strtime::format(&format, &now.to_jiff().to_zoned(jiff::tz::TimeZone::UTC))
                .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        environment.add_filter("tojson", json::to_json);
        let source = source.unwrap_or_else(|| {
            // A model that was never taught these tokens reads them as text, which parts turns all the same.
            tokens.control.extend(["<|im_start|>", "<|im_end|>"].map(str::to_owned));
            CHATML.to_owned()
        });
        let to_defuse = tokens.into_defused(&source);
        environment.add_template_owned("chat", source).map_err(|error| TemplateError::Syntax(error.to_string()))?;
        let mut template = Self { environment, bos_token, eos_token, to_defuse, tool_format: None, reply_prefix: "" };
        template.tool_format = probe_tool_format(&template);
        template.reply_prefix = probe_reply_prefix(&template);
        let markers = template.tool_format.into_iter().flat_map(ToolFormat::markers);
        template.to_defuse.extend(markers.map(|&marker| marker.to_owned()));
        Ok(template)
    }

    /// How the model calls tools, if its template knows them and the form can be read back.
    #[must_use]
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.tool_format
    }

    /// What every reply begins with although the model does not write it, because it ends the prompt: the tag that
    /// opens the reasoning. Empty for most models.
    #[must_use]
    pub fn reply_prefix(&self) -> &'static str {
        self.reply_prefix
    }

    /// The prompt up to where the model's reply begins. Tools are for templates that have a
    /// [`Self::tool_format`]; others leave them out.
    ///
    /// Some templates know no system role, or insist on alternating turns. Then the system prompt
    /// goes into the first user message, and neighbours of one role are joined.
    ///
    /// # Errors
    /// When the template refuses that form too.
    pub fn render(
        &self,
        system: &str,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
    ) -> Result<String, TemplateError> {
        self.try_render(system, messages, tools, true).map_err(|error| TemplateError::Refused(detail(&error)))
    }

    fn try_render(
        &self,
        system: &str,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        is_asked: bool,
    ) -> Result<String, Error> {
        let defuse = |text: &str| self.defuse(text);
        let system = if system.trim().is_empty() { DEFAULT_SYSTEM_PROMPT } else { system };
        let mut plain = vec![TemplateMessage::new("system", defuse(system))];
        let is_single = self.tool_format.is_some_and(ToolFormat::is_single);
        plain.extend(conversation::messages(messages, is_single, &defuse));
        let tools = Value::from(Serde(conversation::tools(tools, &defuse)));
        match self.render_messages(&plain, &tools, is_asked) {
            // Some templates drop a system role silently instead of refusing it.
            Ok(prompt) if prompt.contains(plain[0].content.trim()) => Ok(prompt),
            Ok(_) | Err(_) => self.render_messages(&fold(&plain), &tools, is_asked),
        }
    }

    fn render_messages(&self, messages: &[TemplateMessage], tools: &Value, is_asked: bool) -> Result<String, Error> {
        // Absent and not empty where there are none: templates ask whether they are there.
        let tools = if tools.len() == Some(0) { Value::UNDEFINED } else { tools.clone() };
        self.environment.get_template("chat")?.render(context! {
            messages => Value::from(Serde(messages)),
            tools,
            add_generation_prompt => is_asked,
            bos_token => self.bos_token.as_str(),
            eos_token => self.eos_token.as_str(),
        })
    }

    /// Breaks up every token that `text` must not spell out: `<|im_end|>` becomes `< |im_end|>`.
    fn defuse(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for token in &self.to_defuse {
            let mut characters = token.chars();
            let broken: String = characters.next().into_iter().chain([' ']).chain(characters).collect();
            // Again, because what overlaps is only found once what it overlapped with is broken.
            while text.contains(token.as_str()) && !broken.contains(token.as_str()) {
                text = text.replace(token.as_str(), &broken);
            }
        }
        text
    }
}

fn detail(error: &Error) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}

/// Whether a template knows tools, found out by using it.
///
/// Templates are programs; what they do with tools cannot be told from their text. So a small conversation
/// with a tool, a call and its answer goes through, and only if all of that shows, and the call in a form
/// that is read back as the same call, can the model be driven by its template.
fn probe_tool_format(template: &ChatTemplate) -> Option<ToolFormat> {
    let tools = [ToolDefinition {
        name: "look_up_code".to_owned(),
        description: "Looks up what a code stands for.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"code_7431": {"type": "string"}}, "required": ["code_7431"]}),
    }];
    let call = FunctionCall { name: tools[0].name.clone(), arguments: json!({"code_7431": "7431 \"x\""}) };
    let id = "call_1_0".to_owned();
    let question = ChatMessage::user("What does 7431 stand for?");
    let called = ChatMessage::assistant("").with_calls(vec![ToolCall { id: id.clone(), function: call.clone() }]);
    let answer = ChatMessage::tool(id, &call.name, PROBE_ANSWER);

    let asked = template.try_render(PROBE_SYSTEM, std::slice::from_ref(&question), &tools, true).ok()?;
    let shows_tool = [&tools[0].name, &tools[0].description, "code_7431"].iter().all(|text| asked.contains(*text));
    let whole = template.try_render(PROBE_SYSTEM, &[question.clone(), called.clone()], &tools, false).ok()?;
    let written = whole.strip_prefix(asked.trim_end())?;
    let is_read = |format: &ToolFormat| {
        let mut reader = ToolCallReader::new(*format);
        // What ends the turn comes after the call, and is not looked at.
        reader.push(written.trim_start());
        reader.finish(false).1 == [call.clone()]
    };
    let format = ToolFormat::ALL.into_iter().find(is_read)?;
    let answered = template.try_render(PROBE_SYSTEM, &[question, called, answer], &tools, true).ok()?;
    (shows_tool && answered.contains(PROBE_ANSWER)).then_some(format)
}

/// The beginning of every reply that the template writes into the prompt, and the model therefore leaves out.
fn probe_reply_prefix(template: &ChatTemplate) -> &'static str {
    let asked = template.try_render(PROBE_SYSTEM, &[ChatMessage::user(PROBE_ANSWER)], &[], true).unwrap_or_default();
    if asked.trim_end().ends_with(OPEN_REASONING) { OPEN_REASONING } else { "" }
}
