//! Prompt rendering with the chat template in the model file.
//!
//! Templates are written for Python's Jinja. Features beyond the language itself are provided here: `raise_exception`,
//! `strftime_now`, `tojson` with `indent`, Python's string and dict methods, `break` and `continue`. Templates are
//! user-supplied, so their amount of work is bounded.
//!
//! Invariant: no message can forge a turn. Control tokens in messages are escaped before the template is rendered. The
//! same applies to turn delimiters that the file does not declare as control tokens, and to the markers of tool calls.

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

/// Instruction limit. Sufficient for a conversation of thousands of messages; an endless loop ends within a second.
const FUEL: u64 = 5_000_000;

/// Used if a request has no system prompt.
pub(crate) const DEFAULT_SYSTEM_PROMPT: &str = "You are a helpful assistant.";

/// Used for files without a template.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                      {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Tag that begins the reasoning of models whose template writes it into the prompt.
const OPEN_REASONING: &str = "<think>";
/// Messages used to probe a template.
const PROBE_SYSTEM: &str = "You look up codes.";
const PROBE_ANSWER: &str = "Code 7431 stands for amber.";

/// Reason why no prompt could be rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the chat template of the model file is not valid: {0}")]
    Syntax(String),
    #[error("the chat template of the model file rejected the conversation: {0}")]
    Refused(String),
}

/// Tokens of a vocabulary that are recognized inside texts.
#[derive(Debug, Default)]
pub struct SpecialTokens {
    /// Tokens declared as control tokens.
    pub control: Vec<String>,
    /// Tokens declared as user-defined: turn delimiters in some files, but also ordinary text such as blanks or HTML.
    pub user_defined: Vec<String>,
}

impl SpecialTokens {
    /// Returns the tokens that a message must not contain, longest first. Ordinary text among the user-defined tokens
    /// is excluded: escaping it would only make the model's task harder.
    fn into_escaped(self, template: &str) -> Vec<String> {
        let markers = self.user_defined.into_iter().filter(|token| has_marker_form(token) || template.contains(token));
        let mut tokens: Vec<String> = self.control.into_iter().chain(markers).collect();
        tokens.retain(|token| token.chars().count() > 2 && token.chars().any(|c| !c.is_whitespace()));
        tokens.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        tokens.dedup();
        tokens
    }
}

/// Whether a token looks like `<|user|>`, also with the wide bars that some models use.
fn has_marker_form(token: &str) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(begin, end)| token.starts_with(begin) && token.ends_with(end))
}

/// Chat template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    /// Tokens to escape, longest first.
    to_escape: Vec<String>,
    tool_format: Option<ToolFormat>,
    reply_prefix: &'static str,
}

impl ChatTemplate {
    /// Compiles `source`; `None` selects ChatML.
    ///
    /// # Errors
    /// Returns an error if the source is not valid Jinja.
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
            // A model that was not trained on these tokens reads them as text, which still delimits turns.
            tokens.control.extend(["<|im_start|>", "<|im_end|>"].map(str::to_owned));
            CHATML.to_owned()
        });
        let to_escape = tokens.into_escaped(&source);
        environment.add_template_owned("chat", source).map_err(|error| TemplateError::Syntax(error.to_string()))?;
        let mut template = Self { environment, bos_token, eos_token, to_escape, tool_format: None, reply_prefix: "" };
        template.tool_format = probe_tool_format(&template);
        template.reply_prefix = probe_reply_prefix(&template);
        let markers = template.tool_format.into_iter().flat_map(ToolFormat::markers);
        template.to_escape.extend(markers.map(|&marker| marker.to_owned()));
        Ok(template)
    }

    /// Returns the tool call format, if the template supports tools with calls that can be parsed.
    #[must_use]
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.tool_format
    }

    /// Returns the beginning of every reply that the model does not generate because it is part of the prompt: the tag
    /// that begins the reasoning. Empty for most models.
    #[must_use]
    pub fn reply_prefix(&self) -> &'static str {
        self.reply_prefix
    }

    /// Renders the prompt up to the start of the model's reply. Tools are only used by templates that have a
    /// [`Self::tool_format`].
    ///
    /// Some templates do not support a system role, or require alternating roles. In this case, the system prompt is
    /// moved to the first user message, and consecutive messages of the same role are joined.
    ///
    /// # Errors
    /// Returns an error if the template refuses that form too.
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
        let escape = |text: &str| self.escape(text);
        let system = if system.trim().is_empty() { DEFAULT_SYSTEM_PROMPT } else { system };
        let mut plain = vec![TemplateMessage::new("system", escape(system))];
        let is_single = self.tool_format.is_some_and(ToolFormat::is_single);
        plain.extend(conversation::messages(messages, is_single, &escape));
        let tools = Value::from(Serde(conversation::tools(tools, &escape)));
        match self.render_messages(&plain, &tools, is_asked) {
            // Some templates drop a system role silently instead of refusing it.
            Ok(prompt) if prompt.contains(plain[0].content.trim()) => Ok(prompt),
            Ok(_) | Err(_) => self.render_messages(&fold(&plain), &tools, is_asked),
        }
    }

    fn render_messages(&self, messages: &[TemplateMessage], tools: &Value, is_asked: bool) -> Result<String, Error> {
        // Undefined instead of empty: templates test for its presence.
        let tools = if tools.len() == Some(0) { Value::UNDEFINED } else { tools.clone() };
        self.environment.get_template("chat")?.render(context! {
            messages => Value::from(Serde(messages)),
            tools,
            add_generation_prompt => is_asked,
            bos_token => self.bos_token.as_str(),
            eos_token => self.eos_token.as_str(),
        })
    }

    /// Escapes every token that `text` must not contain: `<|im_end|>` becomes `< |im_end|>`.
    fn escape(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for token in &self.to_escape {
            let mut characters = token.chars();
            let broken: String = characters.next().into_iter().chain([' ']).chain(characters).collect();
            // Repeated, because overlapping tokens are only found after the first one is escaped.
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

/// Determines whether a template supports tools, by rendering it.
///
/// Templates are programs, so their support for tools cannot be determined from their text. A small conversation with a
/// tool, a call and its result is rendered. The template is supported if all of it appears, and the call can be parsed.
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

    let rendered = template.try_render(PROBE_SYSTEM, std::slice::from_ref(&question), &tools, true).ok()?;
    let shows_tool = [&tools[0].name, &tools[0].description, "code_7431"].iter().all(|text| rendered.contains(*text));
    let whole = template.try_render(PROBE_SYSTEM, &[question.clone(), called.clone()], &tools, false).ok()?;
    let written = whole.strip_prefix(rendered.trim_end())?;
    let is_read = |format: &ToolFormat| {
        let mut reader = ToolCallReader::new(*format);
        // The end of the turn follows the call and is ignored.
        reader.push(written.trim_start());
        reader.finish(false).1 == [call.clone()]
    };
    let format = ToolFormat::ALL.into_iter().find(is_read)?;
    let answered = template.try_render(PROBE_SYSTEM, &[question, called, answer], &tools, true).ok()?;
    (shows_tool && answered.contains(PROBE_ANSWER)).then_some(format)
}

/// Returns the beginning of every reply that the template writes into the prompt, which the model therefore omits.
fn probe_reply_prefix(template: &ChatTemplate) -> &'static str {
    let rendered = template.try_render(PROBE_SYSTEM, &[ChatMessage::user(PROBE_ANSWER)], &[], true).unwrap_or_default();
    if rendered.trim_end().ends_with(OPEN_REASONING) { OPEN_REASONING } else { "" }
}
