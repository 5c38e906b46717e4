//! Form controls: select options, checkboxes and file inputs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::keyboard::element_gone;
use super::locate::Needs;
use super::pointer::Click;
use crate::BrowserError;
use crate::selector::shortened;
use crate::tab::{Argument, Deadline, Element, Invoked, Tab};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selected {
    missing: Option<String>,
    wrong: Option<String>,
}

impl Tab {
    pub(super) async fn select_option(
        &self,
        selector: &str,
        value: Option<&str>,
        label: Option<&str>,
        index: Option<u32>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let (by, expected) = match (value, label, index) {
            (Some(value), None, None) => ("value", Value::from(value)),
            (None, Some(label), None) => ("label", Value::from(label)),
            (None, None, Some(index)) => ("index", Value::from(index)),
            _ => {
                return Err(BrowserError::Invalid(
                    "select_option requires exactly one of `value`, `label` and `index`".to_owned(),
                ));
            }
        };
        let mut missing = None;
        loop {
            let ready = match self.ready(selector, Needs { enabled: true, ..Needs::default() }, deadline).await {
                Err(BrowserError::NotActionable { selector, missing: other, waited_ms }) => {
                    let missing = missing.unwrap_or(other);
                    return Err(BrowserError::NotActionable { selector, missing, waited_ms });
                }
                other => other?,
            };
            let arguments = [Argument::Element(&ready.element), json!(by).into(), expected.clone().into()];
            let limit = deadline.remaining();
            let selected = match self.invoke::<Selected>(&ready.element.frame, "select", &arguments, limit).await {
                Ok(Invoked::Done(selected)) => selected,
                Ok(Invoked::Gone) => return Err(element_gone(selector, deadline)),
                // The deadline passed during the last attempt: report what was missing before.
                Err(BrowserError::Timeout { waited_ms, .. }) if missing.is_some() => {
                    let (selector, missing) = (shortened(selector), missing.unwrap_or_default());
                    return Err(BrowserError::NotActionable { selector, missing, waited_ms });
                }
                Err(error) => return Err(error),
            };
            if let Some(wrong) = selected.wrong {
                return Err(BrowserError::Invalid(format!("`{}`: {wrong}", shortened(selector))));
            }
            if selected.missing.is_none() {
                return Ok(());
            }
            missing = selected.missing;
            // Options may be loaded after the list itself.
            tokio::time::sleep(Duration::from_millis(100).min(deadline.remaining())).await;
        }
    }

    pub(super) async fn set_checked(
        &self,
        selector: &str,
        expected: bool,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let element = self.attached(selector, deadline).await?;
        if self.is_checked(selector, &element, deadline).await? == expected {
            return Ok(());
        }
        self.click(selector, Click::SINGLE, deadline).await?;
        // A re-render may have replaced the element.
        let element = self.attached(selector, deadline).await?;
        if self.is_checked(selector, &element, deadline).await? == expected {
            return Ok(());
        }
        Err(BrowserError::NotActionable {
            selector: shortened(selector),
            missing: "the element did not change when it was clicked".to_owned(),
            waited_ms: deadline.waited_ms(),
        })
    }

    async fn is_checked(&self, selector: &str, element: &Element, deadline: Deadline) -> Result<bool, BrowserError> {
        let arguments = [Argument::Element(element)];
        match self.invoke::<Option<bool>>(&element.frame, "checked", &arguments, deadline.remaining()).await? {
            Invoked::Done(Some(checked)) => Ok(checked),
            Invoked::Gone => Err(element_gone(selector, deadline)),
            Invoked::Done(None) => {
                Err(BrowserError::Invalid(format!("`{}` is not a checkbox or radio button", shortened(selector))))
            }
        }
    }

    pub(super) async fn upload_file(
        &self,
        selector: &str,
        path: &Path,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let element = self.attached(selector, deadline).await?;
        let arguments = [Argument::Element(&element)];
        match self.invoke::<bool>(&element.frame, "isFileInput", &arguments, deadline.remaining()).await? {
            Invoked::Done(true) => {}
            Invoked::Gone => return Err(element_gone(selector, deadline)),
            Invoked::Done(false) => {
                return Err(BrowserError::Invalid(format!("`{}` is not a file input", shortened(selector))));
            }
        }
        let number = self.shared.uploads.fetch_add(1, Ordering::Relaxed);
        let (folder, max_bytes, file) = (Arc::clone(&self.shared.folder), self.shared.upload_bytes, path.to_path_buf());
        let copied = tokio::task::spawn_blocking(move || folder.copy_upload(&file, number, max_bytes)).await;
        let name = path.file_name().unwrap_or_default().display();
        let copy = copied
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|error| BrowserError::File(format!("`{name}`: {error}")))?;
        let parameters = json!({"files": [copy], "objectId": element.object});
        let limit = deadline.remaining();
        self.call_in::<IgnoredAny>(&element.session, "DOM.setFileInputFiles", parameters, limit).await.map(|_| ())
    }
}
