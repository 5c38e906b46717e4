//! Mouse input: clicks, hovering, the wheel and dragging.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::locate::{Needs, Ready};
use crate::BrowserError;
use crate::cdp::Delivery;
use crate::selector::shortened;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Argument, Deadline, Invoked, Tab};

/// Number of mouse moves between press and release of a drag.
const DRAG_STEPS: u32 = 5;
/// Time limit for the browser to report that a native drag has started.
const DRAG_START_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(super) struct Click {
    button: &'static str,
    count: u32,
}

impl Click {
    pub(super) const SINGLE: Self = Self { button: "left", count: 1 };
    pub(super) const DOUBLE: Self = Self { button: "left", count: 2 };
    pub(super) const RIGHT: Self = Self { button: "right", count: 1 };
}

#[derive(Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Deserialize)]
struct DragIntercepted {
    data: Value,
}

impl Tab {
    pub(super) async fn click(&self, selector: &str, click: Click, deadline: Deadline) -> Result<(), BrowserError> {
        let needs = Needs { enabled: true, hit: true, guard: true, ..Needs::default() };
        loop {
            let ready = self.ready(selector, needs, deadline).await?;
            match self.click_at(&ready, click).await? {
                None => return Ok(()),
                // Another element covered it; nothing was clicked, so try again.
                Some(cover) if deadline.is_over() => {
                    return Err(BrowserError::NotActionable {
                        selector: shortened(selector),
                        missing: format!("the element is covered by {cover}"),
                        waited_ms: deadline.waited_ms(),
                    });
                }
                Some(_) => {}
            }
        }
    }

    /// Clicks. Returns a description of the element that received the events instead, if any.
    pub(super) async fn click_at(&self, ready: &Ready, click: Click) -> Result<Option<String>, BrowserError> {
        let (x, y) = (ready.x, ready.y);
        let mut sent = vec![mouse_event("mouseMoved", x, y, json!({}))];
        for count in 1..=click.count {
            let button = json!({"button": click.button, "clickCount": count, "buttons": 0});
            let pressed = json!({"button": click.button, "clickCount": count, "buttons": if click.button == "left" { 1 } else { 2 }});
            sent.push(mouse_event("mousePressed", x, y, pressed));
            sent.push(mouse_event("mouseReleased", x, y, button));
        }
        // The browser preserves their order. Awaiting each would cost a frame: moves are handled once per frame.
        let events =
            sent.into_iter().map(|event| self.call::<IgnoredAny>("Input.dispatchMouseEvent", event, COMMAND_TIMEOUT));
        self.input_sent.store(true, Ordering::Relaxed);
        try_join_all(events).await?;
        // The guard is gone if the page navigated.
        match self.invoke::<Option<String>>(&ready.element.frame, "disarm", &[], COMMAND_TIMEOUT).await? {
            Invoked::Done(blocked) => Ok(blocked),
            Invoked::Gone => Ok(None),
        }
    }

    pub(super) async fn hover(&self, selector: &str, deadline: Deadline) -> Result<(), BrowserError> {
        let ready = self.ready(selector, Needs { hit: true, ..Needs::default() }, deadline).await?;
        self.move_to(ready.x, ready.y, 0).await
    }

    pub(super) async fn scroll(
        &self,
        x: f64,
        y: f64,
        selector: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        if !x.is_finite() || !y.is_finite() || (x == 0.0 && y == 0.0) {
            return Err(BrowserError::Invalid("scroll requires a nonzero `x` or `y`, in pixels".to_owned()));
        }
        let main = self.main_frame();
        let point = match selector {
            Some(selector) => {
                let ready = self.ready(selector, Needs::default(), deadline).await?;
                Point { x: ready.x, y: ready.y }
            }
            None => match self.invoke::<Point>(&main, "center", &[], deadline.remaining()).await? {
                Invoked::Done(center) => center,
                Invoked::Gone => return Err(deadline.timeout("a page that can be scrolled")),
            },
        };
        let wheel = mouse_event("mouseWheel", point.x, point.y, json!({"deltaX": x, "deltaY": y}));
        self.call::<IgnoredAny>("Input.dispatchMouseEvent", wheel, deadline.remaining()).await?;
        // Wait for the frames that show the new position.
        self.invoke::<IgnoredAny>(&main, "frames", &[], COMMAND_TIMEOUT).await.map(|_| ())
    }

    pub(super) async fn scroll_to(&self, selector: &str, deadline: Deadline) -> Result<(), BrowserError> {
        let element = self.attached(selector, deadline).await?;
        let arguments = [Argument::Element(&element)];
        self.invoke::<IgnoredAny>(&element.frame, "scrollTo", &arguments, deadline.remaining()).await.map(|_| ())
    }

    pub(super) async fn drag_and_drop(
        &self,
        source: &str,
        target: &str,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let needs = Needs { hit: true, ..Needs::default() };
        // Check the target first: a drag that has started must be dropped somewhere.
        self.ready(target, needs, deadline).await?;
        let from = self.ready(source, needs, deadline).await?;
        let intercept = async |enabled: bool| {
            let parameters = json!({"enabled": enabled});
            self.call::<IgnoredAny>("Input.setInterceptDrags", parameters, COMMAND_TIMEOUT).await.map(|_| ())
        };
        intercept(true).await?;
        let dragged = self.drag(&from, target, deadline).await;
        intercept(false).await?;
        dragged
    }

    async fn drag(&self, from: &Ready, target: &str, deadline: Deadline) -> Result<(), BrowserError> {
        let session = Some(self.main_session());
        let mut drags = self.shared.connection.subscribe(session, &["Input.dragIntercepted"], 4);
        self.move_to(from.x, from.y, 0).await?;
        let button = json!({"button": "left", "clickCount": 1, "buttons": 1});
        let pressed = mouse_event("mousePressed", from.x, from.y, button);
        self.call::<IgnoredAny>("Input.dispatchMouseEvent", pressed, COMMAND_TIMEOUT).await?;
        // Move far enough to start a drag.
        self.move_to(from.x + 3.0, from.y + 3.0, 1).await?;
        self.move_to(from.x + 8.0, from.y + 8.0, 1).await?;
        let mut data = None;
        if from.draggable
            && let Ok(Some(Delivery::Event(event))) = tokio::time::timeout(DRAG_START_TIMEOUT, drags.next()).await
        {
            data = event.read::<DragIntercepted>().map(|drag| drag.data);
        }
        // Locate the target again: the dragged element may have moved it.
        let to = match self.ready(target, Needs { hit: data.is_some(), ..Needs::default() }, deadline).await {
            Ok(ready) => ready,
            Err(error) => {
                self.release(from.x, from.y).await?;
                return Err(error);
            }
        };
        let Some(data) = data else {
            for step in 1..=DRAG_STEPS {
                let part = f64::from(step) / f64::from(DRAG_STEPS);
                let (x, y) = (from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part);
                self.move_to(x, y, 1).await?;
            }
            return self.release(to.x, to.y).await;
        };
        for kind in ["dragEnter", "dragOver", "drop"] {
            let parameters = json!({"type": kind, "x": to.x, "y": to.y, "data": data});
            self.call::<IgnoredAny>("Input.dispatchDragEvent", parameters, COMMAND_TIMEOUT).await?;
        }
        self.release(to.x, to.y).await
    }

    async fn release(&self, x: f64, y: f64) -> Result<(), BrowserError> {
        let released = mouse_event("mouseReleased", x, y, json!({"button": "left", "clickCount": 1}));
        self.call::<IgnoredAny>("Input.dispatchMouseEvent", released, COMMAND_TIMEOUT).await.map(|_| ())
    }

    async fn move_to(&self, x: f64, y: f64, buttons: u32) -> Result<(), BrowserError> {
        let button = if buttons == 0 { "none" } else { "left" };
        let moved = mouse_event("mouseMoved", x, y, json!({"button": button, "buttons": buttons}));
        self.call::<IgnoredAny>("Input.dispatchMouseEvent", moved, COMMAND_TIMEOUT).await.map(|_| ())
    }
}

fn mouse_event(kind: &str, x: f64, y: f64, extra: Value) -> Value {
    let mut event = json!({"type": kind, "x": x, "y": y});
    if let (Value::Object(event), Value::Object(extra)) = (&mut event, extra) {
        event.extend(extra);
    }
    event
}
