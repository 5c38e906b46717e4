//! Interaction events in one form, as an app gets them and as a Workspace add-on does.

use serde_json::Value;

/// The kinds of events that hold something of a person.
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
    /// The id of a command.
    pub(super) command: &'v Value,
    /// The action of the button that was pressed.
    pub(super) function: &'v Value,
    /// Parameters of the action, as an object.
    pub(super) parameters: &'v Value,
    /// Parameters of the action, as a list of keys and values.
    pub(super) parameter_list: &'v Value,
}

impl<'v> Event<'v> {
    /// `None` for events that hold nothing of a person.
    pub(super) fn read(event: &'v Value) -> Option<Self> {
        if event["chat"].is_object() { Self::of_add_on(event) } else { Self::of_app(event) }
    }

    fn of_app(event: &'v Value) -> Option<Self> {
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

    fn of_add_on(event: &'v Value) -> Option<Self> {
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

    /// An app may be added without a message.
    fn with_content(self) -> Option<Self> {
        (self.kind == Kind::Command || self.message.is_object()).then_some(self)
    }
}
