//! Interaction events, normalized from the formats of apps and of Workspace add-ons.

use serde_json::Value;

/// Kinds of events caused by users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Command,
    Click,
}

#[derive(Debug)]
pub(super) struct Event<'v> {
    pub(super) kind: Kind,
    pub(super) is_add_on: bool,
    pub(super) message: &'v Value,
    pub(super) space: &'v Value,
    pub(super) user: &'v Value,
    pub(super) time: &'v Value,
    /// ID of the command.
    pub(super) command: &'v Value,
    /// Action of the pressed button.
    pub(super) function: &'v Value,
    /// Parameters of the action as an object.
    pub(super) parameters: &'v Value,
    /// Parameters of the action as a list of keys and values.
    pub(super) parameter_list: &'v Value,
}

impl<'v> Event<'v> {
    /// Reads an event. Returns `None` for events that are not caused by users.
    pub(super) fn read(event: &'v Value) -> Option<Self> {
        if event["chat"].is_object() { Self::read_add_on_event(event) } else { Self::read_app_event(event) }
    }

    fn read_app_event(event: &'v Value) -> Option<Self> {
        let kind = match event["type"].as_str()? {
            "MESSAGE" | "ADDED_TO_SPACE" => Kind::Message,
            "APP_COMMAND" => Kind::Command,
            "CARD_CLICKED" => Kind::Click,
            _ => return None,
        };
        let (common, action) = (&event["common"], &event["action"]);
        let invoked = &common["invokedFunction"];
        let of_event = Self {
            kind,
            is_add_on: false,
            message: &event["message"],
            space: &event["space"],
            user: &event["user"],
            time: &event["eventTime"],
            command: &event["appCommandMetadata"]["appCommandId"],
            function: if invoked.is_string() { invoked } else { &action["actionMethodName"] },
            parameters: &common["parameters"],
            parameter_list: &action["parameters"],
        };
        of_event.with_content()
    }

    fn read_add_on_event(event: &'v Value) -> Option<Self> {
        let (chat, common) = (&event["chat"], &event["commonEventObject"]);
        let payloads = [
            (Kind::Message, "messagePayload"),
            (Kind::Message, "addedToSpacePayload"),
            (Kind::Command, "appCommandPayload"),
            (Kind::Click, "buttonClickedPayload"),
        ];
        let (kind, payload) = payloads.into_iter().find(|(_, field)| chat[*field].is_object())?;
        let payload = &chat[payload];
        let of_event = Self {
            kind,
            is_add_on: true,
            message: &payload["message"],
            space: if payload["space"].is_object() { &payload["space"] } else { &chat["space"] },
            user: &chat["user"],
            time: &chat["eventTime"],
            command: &payload["appCommandMetadata"]["appCommandId"],
            function: &common["invokedFunction"],
            parameters: &common["parameters"],
            parameter_list: &Value::Null,
        };
        of_event.with_content()
    }

    /// Discards an event without a message, such as the addition of the app to a space.
    fn with_content(self) -> Option<Self> {
        (self.kind == Kind::Command || self.message.is_object()).then_some(self)
    }
}
