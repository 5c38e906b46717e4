//! Keyboard input: keys and text.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::keys::{self, Key};
use super::locate::Needs;
use super::shortcuts;
use crate::BrowserError;
use crate::selector::shortened;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Argument, Deadline, Element, Invoked, Tab};

const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum number of characters typed as keys, which take two events each; longer text is inserted in one step.
const MAX_KEYS: usize = 2_000;
const MAX_DELAY: Duration = Duration::from_secs(1);

impl Tab {
    pub(super) async fn type_text(
        &self,
        selector: &str,
        text: &str,
        clear: bool,
        delay: Option<Duration>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        if text.len() > MAX_TEXT_BYTES || delay.is_some_and(|delay| delay > MAX_DELAY) {
            let max_ms = MAX_DELAY.as_millis();
            return Err(BrowserError::Invalid(format!(
                "`text` must be at most {MAX_TEXT_BYTES} bytes long, and `delay_ms` at most {max_ms}"
            )));
        }
        let needs = Needs { enabled: true, editable: true, ..Needs::default() };
        let ready = self.ready(selector, needs, deadline).await?;
        let element = &ready.element;
        if ready.editing.as_deref() == Some("value") {
            return self.set_value(selector, element, text, deadline).await;
        }
        self.focus_on(selector, element, deadline).await?;
        let arguments = [Argument::Element(element), json!(clear).into()];
        let placed = self.invoke::<bool>(&element.frame, "place", &arguments, deadline.remaining()).await?;
        let Invoked::Done(has_text) = placed else { return Err(element_gone(selector, deadline)) };
        if clear && has_text && text.is_empty() {
            let (delete, modifiers) = keys::parse_chord("Delete")?;
            return self.press(&delete, modifiers).await;
        }
        if delay.is_none() && text.chars().count() > MAX_KEYS {
            return self.insert(text, deadline).await;
        }
        for character in text.chars() {
            match keys::key_for_character(character) {
                Some((key, shifted)) => self.press(&key, if shifted { keys::SHIFT } else { 0 }).await?,
                // No key produces this character.
                None => self.insert(&character.to_string(), deadline).await?,
            }
            if let Some(delay) = delay {
                tokio::time::sleep(delay.min(deadline.remaining())).await;
            }
            if deadline.is_over() {
                return Err(deadline.timeout("the text to be typed"));
            }
        }
        Ok(())
    }

    pub(super) async fn press_key(
        &self,
        key: &str,
        selector: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let (pressed, modifiers) = keys::parse_chord(key)?;
        shortcuts::check(key, &pressed, modifiers)?;
        if let Some(selector) = selector {
            self.focus(selector, deadline).await?;
        }
        self.press(&pressed, modifiers).await
    }

    pub(super) async fn focus(&self, selector: &str, deadline: Deadline) -> Result<(), BrowserError> {
        let ready = self.ready(selector, Needs { enabled: true, ..Needs::default() }, deadline).await?;
        self.focus_on(selector, &ready.element, deadline).await
    }

    pub(super) async fn blur(&self, selector: &str, deadline: Deadline) -> Result<(), BrowserError> {
        let element = self.attached(selector, deadline).await?;
        let arguments = [Argument::Element(&element)];
        self.invoke::<IgnoredAny>(&element.frame, "blur", &arguments, deadline.remaining()).await.map(|_| ())
    }

    async fn focus_on(&self, selector: &str, element: &Element, deadline: Deadline) -> Result<(), BrowserError> {
        let arguments = [Argument::Element(element)];
        match self.invoke::<bool>(&element.frame, "focus", &arguments, deadline.remaining()).await? {
            Invoked::Done(true) => Ok(()),
            Invoked::Gone => Err(element_gone(selector, deadline)),
            Invoked::Done(false) => Err(BrowserError::NotActionable {
                selector: shortened(selector),
                missing: "the element cannot be focused".to_owned(),
                waited_ms: deadline.waited_ms(),
            }),
        }
    }

    /// Sets the value of a date, colour or slider input, which cannot be typed as text.
    async fn set_value(
        &self,
        selector: &str,
        element: &Element,
        text: &str,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let arguments = [Argument::Element(element), json!(text).into()];
        match self.invoke::<bool>(&element.frame, "setValue", &arguments, deadline.remaining()).await? {
            Invoked::Done(true) => Ok(()),
            Invoked::Gone => Err(element_gone(selector, deadline)),
            Invoked::Done(false) => Err(BrowserError::Invalid(format!(
                "`{}` does not take this value; dates are written 2030-12-31, times 23:59, colours #0088ff",
                shortened(selector)
            ))),
        }
    }

    async fn insert(&self, text: &str, deadline: Deadline) -> Result<(), BrowserError> {
        self.call::<IgnoredAny>("Input.insertText", json!({"text": text}), deadline.remaining()).await.map(|_| ())
    }

    /// Sends key down and key up, and waits until the page has handled both.
    ///
    /// Without `nativeVirtualKeyCode` Chromium gives the key to the page only and never runs a shortcut of its own.
    async fn press(&self, key: &Key, modifiers: u32) -> Result<(), BrowserError> {
        let event = |kind: &str, text: Option<&str>| {
            let mut event = json!({
                "type": kind, "key": key.key, "code": key.code, "modifiers": modifiers,
                "windowsVirtualKeyCode": key.virtual_code,
            });
            if let Some(text) = text {
                event["text"] = Value::from(text);
                event["unmodifiedText"] = Value::from(text);
            }
            event
        };
        let down = if key.text.is_some() { "keyDown" } else { "rawKeyDown" };
        let (down, up) = (event(down, key.text.as_deref()), event("keyUp", None));
        // Sent together; the browser preserves their order.
        let pressed = self.call::<IgnoredAny>("Input.dispatchKeyEvent", down, COMMAND_TIMEOUT);
        let released = self.call::<IgnoredAny>("Input.dispatchKeyEvent", up, COMMAND_TIMEOUT);
        self.input_sent.store(true, Ordering::Relaxed);
        tokio::try_join!(pressed, released).map(|_| ())
    }
}

/// Returns the error for an element that disappeared while an action used it.
pub(super) fn element_gone(selector: &str, deadline: Deadline) -> BrowserError {
    BrowserError::NotActionable {
        selector: shortened(selector),
        missing: "the element was removed during the action".to_owned(),
        waited_ms: deadline.waited_ms(),
    }
}
