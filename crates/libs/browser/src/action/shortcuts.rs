//! Key combinations that belong to the browser and not to the page.
//!
//! Keys are sent to the page only ([`super::keyboard`]), so none of these would do anything. An error tells the client
//! what to use instead.

use super::keys::{ALT, CONTROL, Key, META, SHIFT};
use crate::BrowserError;

/// Help, find, reload, the toolbars, caret browsing, the menu, full screen and developer tools.
const FUNCTION_KEYS: &[&str] = &["F1", "F3", "F5", "F6", "F7", "F10", "F11", "F12"];
/// With Control or Meta: bookmark, history, downloads, window, file, print, tab, source code, close; other tabs.
const WITH_CONTROL: &[&str] =
    &["KeyD", "KeyH", "KeyJ", "KeyN", "KeyO", "KeyP", "KeyT", "KeyU", "KeyW", "F4", "Tab", "PageUp", "PageDown"];
/// With Control or Meta and Shift. Letters are refused as well, except [`EDITING_WITH_SHIFT`].
const WITH_CONTROL_SHIFT: &[&str] = &["Delete", "Escape"];
/// Redo, and paste without formatting.
const EDITING_WITH_SHIFT: &[&str] = &["KeyV", "KeyZ"];
/// With Alt: address bar, menus, start page, close.
const WITH_ALT: &[&str] = &["KeyD", "KeyE", "KeyF", "Home", "F4"];

/// Refuses a combination that the browser acts on. `chord` is the combination as the client wrote it.
///
/// # Errors
/// [`BrowserError::Invalid`]
pub(super) fn check(chord: &str, key: &Key, modifiers: u32) -> Result<(), BrowserError> {
    if !is_browser_shortcut(key, modifiers) {
        return Ok(());
    }
    Err(BrowserError::Invalid(format!(
        "`{}` is a shortcut of the browser, not of the page; use goto, go_back, go_forward or reload, and open or close \
         tabs through the API",
        crate::selector::shortened(chord)
    )))
}

fn is_browser_shortcut(key: &Key, modifiers: u32) -> bool {
    let code = key.code.as_str();
    let (has_alt, has_shift) = (modifiers & ALT != 0, modifiers & SHIFT != 0);
    // Meta is the Control of macOS.
    let has_control = modifiers & (CONTROL | META) != 0;
    if FUNCTION_KEYS.contains(&code) || (has_shift && code == "Escape") {
        return true;
    }
    let is_with_control = has_control
        && (WITH_CONTROL.contains(&code)
            || matches!(code.strip_prefix("Digit"), Some(digit) if digit != "0")
            || (has_shift && WITH_CONTROL_SHIFT.contains(&code))
            || (has_shift && code.starts_with("Key") && !EDITING_WITH_SHIFT.contains(&code)));
    // Control and Alt together are the AltGr of other layouts, and shortcuts of pages.
    match (has_control, has_alt) {
        (true, false) => is_with_control,
        (false, true) => WITH_ALT.contains(&code),
        (true, true) => code == "F4",
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::keys;

    fn checked(text: &str) -> Result<(), BrowserError> {
        let (key, modifiers) = keys::parse_chord(text).unwrap();
        check(text, &key, modifiers)
    }

    #[test]
    fn browser_shortcuts_are_refused() {
        for text in [
            "Alt+D",
            "Alt+E",
            "Alt+F",
            "Alt+F4",
            "Alt+Home",
            "Control+1",
            "Control+9",
            "Control+D",
            "Control+F4",
            "Control+H",
            "Control+J",
            "Control+N",
            "Control+O",
            "Control+P",
            "Control+PageDown",
            "Control+PageUp",
            "Control+Shift+C",
            "Control+Shift+Delete",
            "Control+Shift+I",
            "Control+Shift+N",
            "Control+Shift+O",
            "Control+Shift+PageUp",
            "Control+Shift+Tab",
            "Control+Shift+W",
            "Control+T",
            "Control+Tab",
            "Control+U",
            "Control+W",
            "Control+t",
            "F1",
            "F11",
            "F12",
            "F5",
            "Meta+Shift+J",
            "Meta+T",
            "Shift+Control+o",
            "Shift+Escape",
            "Shift+F10",
        ] {
            let error = checked(text).expect_err(text);
            assert_eq!(error.code(), "invalid_action", "{text}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn page_shortcuts_are_permitted() {
        for text in [
            "1",
            "Alt+ArrowLeft",
            "Backspace",
            "Control+0",
            "Control+A",
            "Control+Alt+1",
            "Control+ArrowRight",
            "Control+B",
            "Control+Backspace",
            "Control+C",
            "Control+End",
            "Control+Enter",
            "Control+F",
            "Control+Home",
            "Control+K",
            "Control+S",
            "Control+Shift+ArrowLeft",
            "Control+Shift+End",
            "Control+Shift+V",
            "Control+Shift+Z",
            "Control+V",
            "Control+X",
            "Control+Y",
            "Control+Z",
            "Enter",
            "Escape",
            "F2",
            "F4",
            "Meta+A",
            "PageDown",
            "Shift+Tab",
            "Tab",
            "W",
        ] {
            assert!(checked(text).is_ok(), "{text}");
        }
    }
}
