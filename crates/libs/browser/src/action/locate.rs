//! Resolution of a selector to an element that is ready for an action.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::ElementState;
use crate::BrowserError;
use crate::selector::{Selector, shortened};
use crate::snapshot::escape_name;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// Time limit for a search in one frame, so that a hanging frame does not block the search in the others.
const SEARCH_LIMIT: Duration = Duration::from_secs(2);
/// Delays between attempts in milliseconds; the last one repeats.
const RETRY_DELAYS_MS: [u64; 5] = [0, 20, 50, 100, 200];
/// Scroll alignments in the order in which they are tried: a sticky header may cover the element at one edge.
const ALIGNMENTS: [&str; 4] = ["nearest", "center", "end", "start"];

/// Requirements of an action on its element.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Needs {
    pub(super) enabled: bool,
    pub(super) editable: bool,
    /// The element receives events at its point.
    pub(super) hit: bool,
    /// Blocks mouse events that would reach another element instead.
    pub(super) guard: bool,
}

/// Element that is ready for an action, with its point in page coordinates.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) element: Element,
    pub(super) x: f64,
    pub(super) y: f64,
    /// `text` or `value` for an editable element.
    pub(super) editing: Option<String>,
    pub(super) draggable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Readiness {
    missing: Option<String>,
    scroll: bool,
    x: f64,
    y: f64,
    editing: Option<String>,
    draggable: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct MatchCounts {
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
    /// Compares names as snapshots show them: white space, quotes and invisible characters are ignored.
    fn has_name(&self, name: &str) -> bool {
        escape_name(self.name.as_ref().map_or("", |name| &name.value)) == escape_name(name)
    }
}

/// Search result in one frame.
enum FrameMatch {
    One(Element),
    Many(usize),
}

/// Combined search result of several frames.
pub(crate) enum Matches {
    None,
    One(Element),
    Many(usize),
}

impl Tab {
    /// Waits until the element is ready for the action.
    pub(super) async fn ready(&self, selector: &str, needs: Needs, deadline: Deadline) -> Result<Ready, BrowserError> {
        let parsed = Selector::parse(selector)?;
        let mut missing = None;
        let mut scrolls = 0;
        let mut must_scroll = false;
        for attempt in 0.. {
            pause(attempt, deadline).await;
            if deadline.is_over() {
                let missing = missing.unwrap_or_else(|| "no element matches".to_owned());
                let waited_ms = deadline.waited_ms();
                return Err(BrowserError::NotActionable { selector: shortened(selector), missing, waited_ms });
            }
            let Some(element) = self.find(&parsed, selector).await? else { continue };
            let scroll = must_scroll.then(|| ALIGNMENTS[scrolls % ALIGNMENTS.len()]);
            scrolls += usize::from(must_scroll);
            let readiness = match self.check_readiness(&element, &parsed, needs, scroll, deadline).await {
                Ok(Invoked::Done(readiness)) => readiness,
                Ok(Invoked::Gone) => continue,
                // The last attempt ran out of time; keep the reason of an earlier one.
                Err(BrowserError::Timeout { .. }) => {
                    missing.get_or_insert_with(|| "the page is too busy to respond".to_owned());
                    continue;
                }
                Err(error) => return Err(error),
            };
            match readiness.missing {
                None => {
                    let Readiness { x, y, editing, draggable, .. } = readiness;
                    return Ok(Ready { element, x, y, editing, draggable });
                }
                Some(reason) => missing = Some(reason),
            }
            must_scroll = readiness.scroll;
        }
        Err(deadline.timeout("the element"))
    }

    /// Waits until exactly one element matches, in any state.
    pub(crate) async fn attached(&self, selector: &str, deadline: Deadline) -> Result<Element, BrowserError> {
        let parsed = Selector::parse(selector)?;
        for attempt in 0.. {
            pause(attempt, deadline).await;
            if deadline.is_over() {
                break;
            }
            if let Some(element) = self.find(&parsed, selector).await? {
                return Ok(element);
            }
        }
        let missing = "no element matches".to_owned();
        Err(BrowserError::NotActionable { selector: shortened(selector), missing, waited_ms: deadline.waited_ms() })
    }

    /// Returns the element to capture and the origin of its frame in page coordinates. Scrolls a frame into view.
    pub(crate) async fn origin_of(
        &self,
        selector: &str,
        deadline: Deadline,
    ) -> Result<(Element, (f64, f64)), BrowserError> {
        let ready = self.ready(selector, Needs::default(), deadline).await?;
        if ready.element.frame == self.main_frame() {
            return Ok((ready.element, (0.0, 0.0)));
        }
        match self.to_page_point(&ready.element.frame, 0.0, 0.0, false).await? {
            Invoked::Done(origin) => Ok((ready.element, (origin.x, origin.y))),
            Invoked::Gone => Err(deadline.timeout("the frame of the element")),
        }
    }

    pub(super) async fn wait_for_selector(
        &self,
        selector: &str,
        wanted: ElementState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let parsed = Selector::parse(selector)?;
        for attempt in 0.. {
            pause(attempt, deadline).await;
            if deadline.is_over() {
                break;
            }
            let counts = self.count_matches(&parsed).await?;
            let is_reached = match wanted {
                ElementState::Visible => counts.visible > 0,
                ElementState::Hidden => counts.visible == 0,
                ElementState::Attached => counts.attached > 0,
                ElementState::Detached => counts.attached == 0,
            };
            if is_reached {
                return Ok(());
            }
        }
        let what = match wanted {
            ElementState::Visible => "visible",
            ElementState::Hidden => "hidden",
            ElementState::Attached => "attached",
            ElementState::Detached => "detached",
        };
        Err(deadline.timeout(format!("`{}` to be {what}", shortened(selector))))
    }

    /// Counts matching elements in all frames.
    async fn count_matches(&self, selector: &Selector) -> Result<MatchCounts, BrowserError> {
        let frames = self.state.borrow().frame_ids();
        let Some((kind, value, exact)) = selector.in_page() else {
            let element = match self.find_all(&frames, selector).await {
                Err(BrowserError::StaleRef { .. }) => None,
                Err(error) => return Err(error),
                Ok(found) => found.into_iter().find_map(|found| match found {
                    FrameMatch::One(element) => Some(element),
                    FrameMatch::Many(_) => None,
                }),
            };
            let Some(element) = element else { return Ok(MatchCounts::default()) };
            #[derive(Deserialize)]
            struct States {
                attached: bool,
                visible: bool,
            }
            let states =
                self.invoke::<States>(&element.frame, "states", &[Argument::Element(&element)], SEARCH_LIMIT).await?;
            return Ok(match states {
                Invoked::Done(states) => {
                    MatchCounts { attached: states.attached.into(), visible: states.visible.into() }
                }
                Invoked::Gone => MatchCounts::default(),
            });
        };
        let arguments = [json!(kind), json!(value), json!(exact)].map(Argument::Value);
        let searched = join_all(
            frames.iter().map(|frame| self.invoke::<MatchCounts>(frame, "anyVisible", &arguments, SEARCH_LIMIT)),
        )
        .await;
        let mut all = MatchCounts::default();
        for counts in searched {
            if let Some(Invoked::Done(counts)) = skip_unavailable(counts)? {
                all.attached += counts.attached;
                all.visible += counts.visible;
            }
        }
        Ok(all)
    }

    /// Returns the matching element, or `None` if no element matches yet.
    async fn find(&self, parsed: &Selector, selector: &str) -> Result<Option<Element>, BrowserError> {
        let frames = self.state.borrow().frame_ids();
        match self.matches(&frames, parsed, selector).await? {
            Matches::None => Ok(None),
            Matches::One(element) => Ok(Some(element)),
            Matches::Many(count) => Err(BrowserError::Ambiguous { selector: shortened(selector), count }),
        }
    }

    /// Searches these frames.
    pub(crate) async fn matches(
        &self,
        frames: &[FrameId],
        parsed: &Selector,
        selector: &str,
    ) -> Result<Matches, BrowserError> {
        let found = self.find_all(frames, parsed).await.map_err(|error| match error {
            BrowserError::Invalid(reason) => {
                BrowserError::Invalid(format!("`{}` is not a valid selector: {reason}", shortened(selector)))
            }
            other => other,
        })?;
        let count = found.iter().map(|found| if let FrameMatch::Many(count) = found { *count } else { 1 }).sum();
        if count > 1 {
            return Ok(Matches::Many(count));
        }
        let one =
            found.into_iter().find_map(|found| if let FrameMatch::One(element) = found { Some(element) } else { None });
        Ok(one.map_or(Matches::None, Matches::One))
    }

    async fn find_all(&self, frames: &[FrameId], selector: &Selector) -> Result<Vec<FrameMatch>, BrowserError> {
        if let Selector::Reference { number, .. } = selector {
            return Ok(vec![FrameMatch::One(self.referenced(*number).await?)]);
        }
        let mut all = Vec::new();
        for found in join_all(frames.iter().map(|frame| self.find_in(frame, selector))).await {
            all.extend(skip_unavailable(found)?.flatten());
        }
        Ok(all)
    }

    async fn find_in(&self, frame: &FrameId, selector: &Selector) -> Result<Option<FrameMatch>, BrowserError> {
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
            return Ok(Some(FrameMatch::One(Element { frame: frame.clone(), session, object })));
        }
        let count = found.value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Ok((count > 0).then_some(FrameMatch::Many(count)))
    }

    async fn find_by_role(
        &self,
        frame: &FrameId,
        role: &str,
        name: Option<&str>,
    ) -> Result<Option<FrameMatch>, BrowserError> {
        let Invoked::Done(document) = self.invoke_raw(frame, "document", &[], false, SEARCH_LIMIT).await? else {
            return Ok(None);
        };
        let Some(session) = self.session_of(frame) else { return Ok(None) };
        let parameters = json!({"objectId": document.object_id, "role": role});
        let queried: QueriedTree =
            match self.call_in(&session, "Accessibility.queryAXTree", parameters, SEARCH_LIMIT).await {
                // The document was replaced in the meantime.
                Err(BrowserError::Protocol(_)) => return Ok(None),
                other => other?,
            };
        let is_meant = |node: &&QueriedNode| !node.ignored && name.is_none_or(|name| node.has_name(name));
        let nodes: Vec<i64> = queried.nodes.iter().filter(is_meant).filter_map(|node| node.node).collect();
        match nodes.as_slice() {
            [] => Ok(None),
            [node] => match self.resolve(frame, *node).await? {
                Invoked::Done(element) => Ok(Some(FrameMatch::One(element))),
                Invoked::Gone => Ok(None),
            },
            nodes => Ok(Some(FrameMatch::Many(nodes.len()))),
        }
    }

    /// Checks an element once and, if it is ready, the frames that contain it.
    async fn check_readiness(
        &self,
        element: &Element,
        parsed: &Selector,
        needs: Needs,
        scroll: Option<&str>,
        deadline: Deadline,
    ) -> Result<Invoked<Readiness>, BrowserError> {
        // An element addressed by a point must not be scrolled: the point would hit another element.
        let at = parsed.point();
        let scroll = if at.is_some() { None } else { scroll };
        let needed = json!({
            "enabled": needs.enabled, "editable": needs.editable, "hit": needs.hit, "guard": needs.guard,
            "scroll": scroll, "at": at,
        });
        let arguments = [Argument::Element(element), Argument::Value(needed)];
        let readiness = self.invoke::<Readiness>(&element.frame, "ready", &arguments, deadline.remaining()).await?;
        let Invoked::Done(mut readiness) = readiness else { return Ok(Invoked::Gone) };
        if readiness.missing.is_some() {
            return Ok(Invoked::Done(readiness));
        }
        match self.to_page_point(&element.frame, readiness.x, readiness.y, needs.hit).await? {
            Invoked::Gone => Ok(Invoked::Gone),
            Invoked::Done(Readiness { missing: Some(missing), scroll, .. }) => {
                Ok(Invoked::Done(Readiness { missing: Some(missing), scroll, ..readiness }))
            }
            Invoked::Done(Readiness { x, y, .. }) => {
                (readiness.x, readiness.y) = (x, y);
                Ok(Invoked::Done(readiness))
            }
        }
    }

    /// Converts a point of a frame to page coordinates, through all parent frames.
    async fn to_page_point(
        &self,
        frame: &FrameId,
        x: f64,
        y: f64,
        hit: bool,
    ) -> Result<Invoked<Readiness>, BrowserError> {
        let mut at = Readiness { x, y, ..Readiness::default() };
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
            let Invoked::Done(next) = self.invoke::<Readiness>(&parent, "through", &arguments, SEARCH_LIMIT).await?
            else {
                return Ok(Invoked::Gone);
            };
            if next.missing.is_some() {
                return Ok(Invoked::Done(next));
            }
            (at, frame) = (next, parent);
        }
    }
}

/// Maps an error that affects only one frame to `None`, so that the other frames are still searched.
fn skip_unavailable<T>(found: Result<T, BrowserError>) -> Result<Option<T>, BrowserError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(BrowserError::Timeout { .. } | BrowserError::Protocol(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) async fn pause(attempt: usize, deadline: Deadline) {
    let pause = Duration::from_millis(RETRY_DELAYS_MS[attempt.min(RETRY_DELAYS_MS.len() - 1)]);
    if !pause.is_zero() {
        tokio::time::sleep(pause.min(deadline.remaining())).await;
    }
}
