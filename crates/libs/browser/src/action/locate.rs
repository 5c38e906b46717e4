//! From a selector to an element that can be acted on.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::ElementState;
use crate::BrowserError;
use crate::selector::{Selector, shortened};
use crate::snapshot::shown_name;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// One frame that hangs must not keep the others from being searched.
const SEARCH_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks; the last one goes on.
const PAUSES_MS: [u64; 5] = [0, 20, 50, 100, 200];
/// Where an element is brought to, look after look: something may stick to an edge and cover it.
const ALIGNMENTS: [&str; 4] = ["nearest", "center", "end", "start"];

/// What an action asks of an element.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Needs {
    pub(super) enabled: bool,
    pub(super) editable: bool,
    /// It gets an event at its point.
    pub(super) hit: bool,
    /// What would get the events of the mouse instead gets none.
    pub(super) guard: bool,
}

/// An element that is ready, and the point of it in the page.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) element: Element,
    pub(super) x: f64,
    pub(super) y: f64,
    /// `text` or `value`, for what can be written into.
    pub(super) editing: Option<String>,
    pub(super) draggable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Looked {
    missing: Option<String>,
    scroll: bool,
    x: f64,
    y: f64,
    editing: Option<String>,
    draggable: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Seen {
    attached: usize,
    visible: usize,
}

#[derive(Debug, Deserialize)]
struct QueriedTree {
    nodes: Vec<QueriedNode>,
}

#[derive(Debug, Deserialize)]
struct QueriedNode {
    #[serde(default)]
    ignored: bool,
    #[serde(default)]
    name: Option<QueriedName>,
    #[serde(rename = "backendDOMNodeId", default)]
    node: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct QueriedName {
    #[serde(default)]
    value: String,
}

impl QueriedNode {
    /// Compares names as snapshots show them: white space, quotes and characters without a visible form do not tell
    /// them apart.
    fn is_called(&self, name: &str) -> bool {
        shown_name(self.name.as_ref().map_or("", |name| &name.value)) == shown_name(name)
    }
}

/// What one frame has.
enum Found {
    One(Element),
    Many(usize),
}

/// What several frames have together.
pub(crate) enum Matches {
    None,
    One(Element),
    Many(usize),
}

impl Tab {
    /// Waits until the element is ready.
    pub(super) async fn ready(&self, selector: &str, needs: Needs, deadline: Deadline) -> Result<Ready, BrowserError> {
        let parsed = Selector::parse(selector)?;
        let mut missing = None;
        let mut scrolls = 0;
        let mut must_scroll = false;
        for look in 0.. {
            pause(look, deadline).await;
            if deadline.is_over() {
                let missing = missing.unwrap_or_else(|| "no element matches it".to_owned());
                let waited_ms = deadline.waited_ms();
                return Err(BrowserError::NotActionable { selector: shortened(selector), missing, waited_ms });
            }
            let Some(element) = self.find(&parsed, selector).await? else { continue };
            let scroll = must_scroll.then(|| ALIGNMENTS[scrolls % ALIGNMENTS.len()]);
            scrolls += usize::from(must_scroll);
            let looked = match self.look(&element, &parsed, needs, scroll, deadline).await {
                Ok(Invoked::Done(looked)) => looked,
                Ok(Invoked::Gone) => continue,
                // The last look had no time left; an earlier one may have seen something.
                Err(BrowserError::Timeout { .. }) => {
                    missing.get_or_insert_with(|| "its page is too busy to answer".to_owned());
                    continue;
                }
                Err(error) => return Err(error),
            };
            match looked.missing {
                None => {
                    let Looked { x, y, editing, draggable, .. } = looked;
                    return Ok(Ready { element, x, y, editing, draggable });
                }
                Some(reason) => missing = Some(reason),
            }
            must_scroll = looked.scroll;
        }
        Err(deadline.timeout("the element"))
    }

    /// Waits for the one element, in whatever state it is.
    pub(crate) async fn attached(&self, selector: &str, deadline: Deadline) -> Result<Element, BrowserError> {
        let parsed = Selector::parse(selector)?;
        for look in 0.. {
            pause(look, deadline).await;
            if deadline.is_over() {
                break;
            }
            if let Some(element) = self.find(&parsed, selector).await? {
                return Ok(element);
            }
        }
        let missing = "no element matches it".to_owned();
        Err(BrowserError::NotActionable { selector: shortened(selector), missing, waited_ms: deadline.waited_ms() })
    }

    /// The element of a picture, and where its frame begins in the page; a frame is as it is shown.
    pub(crate) async fn origin_of(
        &self,
        selector: &str,
        deadline: Deadline,
    ) -> Result<(Element, (f64, f64)), BrowserError> {
        let ready = self.ready(selector, Needs::default(), deadline).await?;
        if ready.element.frame == self.main_frame() {
            return Ok((ready.element, (0.0, 0.0)));
        }
        match self.to_page(&ready.element.frame, 0.0, 0.0, false).await? {
            Invoked::Done(origin) => Ok((ready.element, (origin.x, origin.y))),
            Invoked::Gone => Err(deadline.timeout("the element's frame")),
        }
    }

    pub(super) async fn wait_for_selector(
        &self,
        selector: &str,
        wanted: ElementState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let parsed = Selector::parse(selector)?;
        for look in 0.. {
            pause(look, deadline).await;
            if deadline.is_over() {
                break;
            }
            let seen = self.seen(&parsed).await?;
            let is_there = match wanted {
                ElementState::Visible => seen.visible > 0,
                ElementState::Hidden => seen.visible == 0,
                ElementState::Attached => seen.attached > 0,
                ElementState::Detached => seen.attached == 0,
            };
            if is_there {
                return Ok(());
            }
        }
        let what = match wanted {
            ElementState::Visible => "shown",
            ElementState::Hidden => "hidden",
            ElementState::Attached => "there",
            ElementState::Detached => "removed",
        };
        Err(deadline.timeout(format!("that `{}` is {what}", shortened(selector))))
    }

    /// How many elements of all frames match.
    async fn seen(&self, selector: &Selector) -> Result<Seen, BrowserError> {
        let frames = self.state.borrow().frame_ids();
        let Some((kind, value, exact)) = selector.in_page() else {
            let element = match self.find_all(&frames, selector).await {
                Err(BrowserError::StaleRef { .. }) => None,
                Err(error) => return Err(error),
                Ok(found) => found.into_iter().find_map(|found| match found {
                    Found::One(element) => Some(element),
                    Found::Many(_) => None,
                }),
            };
            let Some(element) = element else { return Ok(Seen::default()) };
            #[derive(Deserialize)]
            struct States {
                attached: bool,
                visible: bool,
            }
            let states =
                self.invoke::<States>(&element.frame, "states", &[Argument::Element(&element)], SEARCH_LIMIT).await?;
            return Ok(match states {
                Invoked::Done(states) => Seen { attached: states.attached.into(), visible: states.visible.into() },
                Invoked::Gone => Seen::default(),
            });
        };
        let arguments = [json!(kind), json!(value), json!(exact)].map(Argument::Value);
        let searched =
            join_all(frames.iter().map(|frame| self.invoke::<Seen>(frame, "anyVisible", &arguments, SEARCH_LIMIT)))
                .await;
        let mut all = Seen::default();
        for seen in searched {
            if let Some(Invoked::Done(seen)) = quiet(seen)? {
                all.attached += seen.attached;
                all.visible += seen.visible;
            }
        }
        Ok(all)
    }

    /// The one element that is meant; none where there is none yet.
    async fn find(&self, parsed: &Selector, selector: &str) -> Result<Option<Element>, BrowserError> {
        let frames = self.state.borrow().frame_ids();
        match self.matches(&frames, parsed, selector).await? {
            Matches::None => Ok(None),
            Matches::One(element) => Ok(Some(element)),
            Matches::Many(count) => Err(BrowserError::Ambiguous { selector: shortened(selector), count }),
        }
    }

    /// What matches in these frames.
    pub(crate) async fn matches(
        &self,
        frames: &[FrameId],
        parsed: &Selector,
        selector: &str,
    ) -> Result<Matches, BrowserError> {
        let found = self.find_all(frames, parsed).await.map_err(|error| match error {
            BrowserError::Invalid(reason) => {
                BrowserError::Invalid(format!("`{}` is no selector that is known: {reason}", shortened(selector)))
            }
            other => other,
        })?;
        let count = found.iter().map(|found| if let Found::Many(count) = found { *count } else { 1 }).sum();
        if count > 1 {
            return Ok(Matches::Many(count));
        }
        let one =
            found.into_iter().find_map(|found| if let Found::One(element) = found { Some(element) } else { None });
        Ok(one.map_or(Matches::None, Matches::One))
    }

    async fn find_all(&self, frames: &[FrameId], selector: &Selector) -> Result<Vec<Found>, BrowserError> {
        if let Selector::Reference { number, .. } = selector {
            return Ok(vec![Found::One(self.referenced(*number).await?)]);
        }
        let mut all = Vec::new();
        for found in join_all(frames.iter().map(|frame| self.find_in(frame, selector))).await {
            all.extend(quiet(found)?.flatten());
        }
        Ok(all)
    }

    async fn find_in(&self, frame: &FrameId, selector: &Selector) -> Result<Option<Found>, BrowserError> {
        if let Selector::Role { role, name } = selector {
            return self.find_by_role(frame, role, name.as_deref()).await;
        }
        let Some((kind, value, exact)) = selector.in_page() else { return Ok(None) };
        let arguments = [json!(kind), json!(value), json!(exact)].map(Argument::Value);
        let Invoked::Done(found) = self.invoke_raw(frame, "find", &arguments, false, SEARCH_LIMIT).await? else {
            return Ok(None);
        };
        if let Some(object) = found.object_id {
            let Some(session) = self.session_of(frame) else { return Ok(None) };
            return Ok(Some(Found::One(Element { frame: frame.clone(), session, object })));
        }
        let count = found.value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Ok((count > 0).then_some(Found::Many(count)))
    }

    async fn find_by_role(
        &self,
        frame: &FrameId,
        role: &str,
        name: Option<&str>,
    ) -> Result<Option<Found>, BrowserError> {
        let Invoked::Done(document) = self.invoke_raw(frame, "document", &[], false, SEARCH_LIMIT).await? else {
            return Ok(None);
        };
        let Some(session) = self.session_of(frame) else { return Ok(None) };
        let parameters = json!({"objectId": document.object_id, "role": role});
        let queried: QueriedTree =
            match self.call_in(&session, "Accessibility.queryAXTree", parameters, SEARCH_LIMIT).await {
                // The document went meanwhile.
                Err(BrowserError::Protocol(_)) => return Ok(None),
                other => other?,
            };
        let is_meant = |node: &&QueriedNode| !node.ignored && name.is_none_or(|name| node.is_called(name));
        let nodes: Vec<i64> = queried.nodes.iter().filter(is_meant).filter_map(|node| node.node).collect();
        match nodes.as_slice() {
            [] => Ok(None),
            [node] => match self.resolve(frame, *node).await? {
                Invoked::Done(element) => Ok(Some(Found::One(element))),
                Invoked::Gone => Ok(None),
            },
            nodes => Ok(Some(Found::Many(nodes.len()))),
        }
    }

    /// Looks at an element once; where it is ready, at the frames around it.
    async fn look(
        &self,
        element: &Element,
        parsed: &Selector,
        needs: Needs,
        scroll: Option<&str>,
        deadline: Deadline,
    ) -> Result<Invoked<Looked>, BrowserError> {
        // What is pointed at is where it is: bringing it elsewhere would point at something else.
        let at = parsed.point();
        let scroll = if at.is_some() { None } else { scroll };
        let needed = json!({
            "enabled": needs.enabled, "editable": needs.editable, "hit": needs.hit, "guard": needs.guard,
            "scroll": scroll, "at": at,
        });
        let arguments = [Argument::Element(element), Argument::Value(needed)];
        let looked = self.invoke::<Looked>(&element.frame, "ready", &arguments, deadline.remaining()).await?;
        let Invoked::Done(mut looked) = looked else { return Ok(Invoked::Gone) };
        if looked.missing.is_some() {
            return Ok(Invoked::Done(looked));
        }
        match self.to_page(&element.frame, looked.x, looked.y, needs.hit).await? {
            Invoked::Gone => Ok(Invoked::Gone),
            Invoked::Done(Looked { missing: Some(missing), scroll, .. }) => {
                Ok(Invoked::Done(Looked { missing: Some(missing), scroll, ..looked }))
            }
            Invoked::Done(Looked { x, y, .. }) => {
                (looked.x, looked.y) = (x, y);
                Ok(Invoked::Done(looked))
            }
        }
    }

    /// A point of a frame as a point of the page, through all frames around it.
    async fn to_page(&self, frame: &FrameId, x: f64, y: f64, hit: bool) -> Result<Invoked<Looked>, BrowserError> {
        let mut at = Looked { x, y, ..Looked::default() };
        let mut frame = frame.clone();
        loop {
            let parent = self.state.borrow().frames.get(&frame).map(|frame| frame.parent.clone());
            let Some(parent) = parent else { return Ok(Invoked::Gone) };
            let Some(parent) = parent else { return Ok(Invoked::Done(at)) };
            let node = match self.frame_owner(&frame, &parent).await {
                Err(BrowserError::Protocol(_)) => return Ok(Invoked::Gone),
                other => other?,
            };
            let Invoked::Done(owner) = self.resolve(&parent, node).await? else { return Ok(Invoked::Gone) };
            let arguments = [Argument::Element(&owner), json!(at.x).into(), json!(at.y).into(), json!(hit).into()];
            let Invoked::Done(next) = self.invoke::<Looked>(&parent, "through", &arguments, SEARCH_LIMIT).await? else {
                return Ok(Invoked::Gone);
            };
            if next.missing.is_some() {
                return Ok(Invoked::Done(next));
            }
            (at, frame) = (next, parent);
        }
    }
}

/// What makes one frame not count, but the others still do.
fn quiet<T>(found: Result<T, BrowserError>) -> Result<Option<T>, BrowserError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(BrowserError::Timeout { .. } | BrowserError::Protocol(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) async fn pause(look: usize, deadline: Deadline) {
    let pause = Duration::from_millis(PAUSES_MS[look.min(PAUSES_MS.len() - 1)]);
    if !pause.is_zero() {
        tokio::time::sleep(pause.min(deadline.remaining())).await;
    }
}
