// Runs in an isolated world of each frame, which scripts of the page can neither see nor change.
(() => {
  const MAX_TEXT = 40;
  const squeeze = (text) => (text || '').replace(/\s+/g, ' ').trim();
  // Returns text as shown in a snapshot, without invisible characters.
  const shown = (text) => squeeze((text || '').replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, ''));
  // Returns the parent in the flat tree, across slots and shadow roots.
  const parentOf = (node) =>
    node.assignedSlot || node.parentElement || (node.parentNode instanceof ShadowRoot ? node.parentNode.host : null);
  const closest = (element, test) => {
    for (let at = element; at; at = parentOf(at)) if (test(at)) return at;
    return null;
  };
  const isWithin = (node, ancestor) => closest(node, (at) => at === ancestor) !== null;

  const UNSEEN = 'script,style,noscript,template';
  // Returns the text of an element as displayed, without the text of scripts.
  const textOf = (element) => {
    if (!element.querySelector(UNSEEN)) return element.textContent;
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let text = '';
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(UNSEEN)) text += walker.currentNode.data;
    return text;
  };

  const roots = () => {
    const found = [document];
    for (let at = 0; at < found.length; at++)
      for (const element of found[at].querySelectorAll('*')) if (element.shadowRoot) found.push(element.shadowRoot);
    return found;
  };

  const describe = (element) => {
    let said = '<' + element.localName;
    if (element.id) said += ` id="${element.id.slice(0, MAX_TEXT)}"`;
    const classes = element.getAttribute('class');
    if (classes) said += ` class="${squeeze(classes).slice(0, MAX_TEXT)}"`;
    const text = squeeze(textOf(element));
    return said + '>' + (text ? ` "${text.length > MAX_TEXT ? text.slice(0, MAX_TEXT) + '…' : text}"` : '');
  };

  const find = {
    css: (value) => roots().flatMap((root) => [...root.querySelectorAll(value)]),
    xpath: (value) => {
      const found = document.evaluate(value, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
      return Array.from({ length: found.snapshotLength }, (_, at) => found.snapshotItem(at)).filter(
        (node) => node.nodeType === Node.ELEMENT_NODE);
    },
    // Returns the innermost elements with the text.
    text: (value, exact) => {
      const wanted = exact ? shown(value) : shown(value).toLowerCase();
      const has = (text) => exact ? shown(text) === wanted : shown(text).toLowerCase().includes(wanted);
      const found = [];
      const visit = (element) => {
        if (element.matches(`head,${UNSEEN}`)) return false;
        if (element.tagName === 'INPUT') {
          const isButton = ['submit', 'button', 'reset'].includes(element.type);
          if (isButton && has(element.value)) return found.push(element) > 0;
          return false;
        }
        let inside = false;
        if (element.shadowRoot) for (const child of element.shadowRoot.children) inside = visit(child) || inside;
        for (const child of element.children) inside = visit(child) || inside;
        if (!inside && has(textOf(element))) return found.push(element) > 0;
        return inside;
      };
      visit(document.documentElement);
      return found;
    },
    // At the position of a frame, the element of the page is the frame.
    point: (value) => {
      if (window !== top) return [];
      const { x, y } = pointedAt(value);
      const hit = hitAt(x, y);
      return hit ? [hit] : [];
    },
  };

  // Selects elements that a snapshot may list, and frames. Elements with a role must be interactive.
  const NATIVE = 'a[href],area[href],button,input:not([type=hidden]),select,textarea,option,summary,iframe,frame,video,' +
    'audio,[contenteditable]:not([contenteditable=false]),' + ['button', 'link', 'textbox', 'searchbox',
      'combobox', 'listbox', 'option', 'checkbox', 'radio', 'switch', 'slider', 'spinbutton', 'menuitem',
      'menuitemcheckbox', 'menuitemradio', 'tab', 'treeitem'].map((role) => `[role~="${role}"]`).join();
  const USABLE = `${NATIVE},[tabindex]`;
  // Clickable elements found by the last search, with their names.
  let clickable = new Map();
  const isUsable = (element) => {
    if (clickable.has(element)) return true;
    if (!element.matches(USABLE)) return false;
    if (element.localName === 'area') return true;
    if (element.localName === 'option') {
      const list = element.closest('select,datalist');
      return !list || (list.localName === 'select' && (list.multiple || list.size > 1));
    }
    return element.checkVisibility({ visibilityProperty: true }) || getComputedStyle(element).display === 'contents';
  };

  const isVisible = (element) => {
    if (!element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) {
      // An element that only its children draw has no box of its own.
      if (getComputedStyle(element).display !== 'contents') return false;
      return [...element.children].some(isVisible);
    }
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0;
  };

  // Time limit for examining styles, and maximum number of listed elements without a role.
  const [STYLES_MS, MAX_CLICKABLE, MAX_NAME] = [300, 500, 300];
  const nameOf = (element) => {
    const picture = element.querySelector('img[alt],svg title');
    const said = [element.getAttribute('aria-label'), textOf(element), element.title,
      picture && (picture.alt || picture.textContent)].map(squeeze).find(Boolean) || '';
    return said.slice(0, MAX_NAME);
  };
  const isDrawn = (element) => element.matches('img,svg,canvas,i') || element.querySelector('img,svg,canvas,i') !== null;
  // Whether the element shows more than its elements with a role.
  const hasOwnContent = (element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const isContent = node.nodeType === Node.TEXT_NODE ? squeeze(node.data) : node.matches('img,svg,canvas');
      if (isContent && !closest(node.parentElement, (at) => at.matches(NATIVE))) return true;
    }
    return false;
  };
  const isRendered = (element) => element.checkVisibility({ visibilityProperty: true });
  const BOXES = 'input[type=checkbox],input[type=radio],input[type=file]';
  // Returns elements that look or behave as if they were clickable, in reading order.
  const candidatesOf = (listening) => {
    const heard = new Set(listening.filter((element) => element instanceof Element && element.ownerDocument === document));
    const until = performance.now() + STYLES_MS;
    const [pointers, candidates] = [new WeakSet(), new Map()];
    for (const element of roots().flatMap((root) => [...root.querySelectorAll('*')])) {
      let isMarked = element.hasAttribute('onclick') || (element.hasAttribute('tabindex') && element.tabIndex >= 0);
      if (performance.now() < until && getComputedStyle(element).cursor === 'pointer') {
        pointers.add(element);
        if (!pointers.has(parentOf(element))) isMarked = true;
      }
      const label = closest(element, (at) => at.localName === 'label');
      const control = label && label.control;
      // A hidden checkbox is used through its label, and a visible one is listed itself.
      if (control && isRendered(control)) continue;
      if (control && label === element && control.matches(BOXES)) isMarked = true;
      const hasHandler = heard.has(element) || element.hasAttribute('onclick');
      if (!isMarked && !hasHandler) continue;
      if (element === document.documentElement || element === document.body) continue;
      if (closest(element, (at) => at.matches(NATIVE)) || !isVisible(element)) continue;
      candidates.set(element, { isMarked, hasHandler, holds: false, holdsHandler: false });
    }
    for (const [element, { hasHandler }] of candidates) {
      for (let at = parentOf(element); at; at = parentOf(at)) {
        const outer = candidates.get(at);
        if (outer) [outer.holds, outer.holdsHandler] = [true, outer.holdsHandler || hasHandler];
      }
    }
    return candidates;
  };
  const findClickable = (listening) => {
    const found = new Map();
    for (const [element, { isMarked, hasHandler, holds, holdsHandler }] of candidatesOf(listening)) {
      if (found.size === MAX_CLICKABLE) break;
      // Of nested elements the outermost one counts.
      if (closest(parentOf(element), (at) => found.has(at))) continue;
      const holdsNative = element.querySelector(NATIVE) !== null;
      // A delegated listener, or a style around elements with handlers: the inner elements count.
      if (!isMarked && (holds || holdsNative)) continue;
      if (!hasHandler && holdsHandler) continue;
      if (holdsNative && !hasOwnContent(element)) continue;
      const name = nameOf(element);
      if (name || isDrawn(element)) found.set(element, name);
    }
    return found;
  };

  const CONTROLS = 'button,select,input,textarea,option,optgroup,fieldset,[role],a[href]';
  const isDisabled = (element) => {
    const control = closest(element, (at) => at.matches(CONTROLS)) || element;
    return control.matches(':disabled') || closest(control, (at) => at.getAttribute('aria-disabled') === 'true') !== null;
  };

  const TEXT_TYPES = ['text', 'search', 'url', 'tel', 'email', 'password', 'number', ''];
  const VALUE_TYPES = ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'];
  const kindOfEditing = (element) => {
    if (element.isContentEditable) return 'text';
    if (element.localName === 'textarea') return element.readOnly ? null : 'text';
    if (element.localName !== 'input' || element.readOnly) return null;
    if (VALUE_TYPES.includes(element.type)) return 'value';
    return TEXT_TYPES.includes(element.type) ? 'text' : null;
  };

  const controlOf = (element) => {
    const label = closest(element, (at) => at.localName === 'label');
    return label && label.control && !element.matches('input,select,textarea,button') ? label.control : element;
  };

  // Whether an animation frame occurred; a page that is not drawn, or on a busy machine, has none.
  const frame = () => new Promise((done) => {
    const late = setTimeout(() => done(false), 250);
    requestAnimationFrame(() => { clearTimeout(late); done(true); });
  });

  const isAnimated = (element) =>
    closest(element, (at) => at.getAnimations().some((animation) => animation.playState === 'running')) !== null;

  const boxOf = (element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x, y, width, height].join();
  };

  // Returns the centre of the visible part of the first box with an area in the viewport.
  const pointOf = (element) => {
    let boxes = [...element.getClientRects()];
    if (!boxes.length) boxes = [...element.children].flatMap((child) => [...child.getClientRects()]);
    for (const box of boxes) {
      const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
      const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
      if (right - left >= 1 && bottom - top >= 1) return { x: (left + right) / 2, y: (top + bottom) / 2 };
    }
    return null;
  };

  // Returns the label shown in place of a checkbox or file input, which some pages hide to style it.
  const labelInPlaceOf = (element) =>
    element.matches(BOXES) ? [...element.labels].find(isVisible) : null;

  // Point in percent of the viewport.
  const pointedAt = (text) => {
    const [x, y] = text.split(',').map(Number);
    return { x: innerWidth * x / 100, y: innerHeight * y / 100 };
  };

  const hitAt = (x, y) => {
    let hit = document.elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  };

  const receives = (element, hit) => isWithin(hit, element) || controlOf(hit) === element || controlOf(element) === hit;
  // Text in a slot of the element belongs to the host of its shadow root, and so does the point. The guard detects
  // which of the two receives the event.
  const mayReceive = (element, hit) =>
    receives(element, hit) || (element.getRootNode().host === hit && element.querySelector('slot') !== null);

  let guard = null;
  const EVENTS = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu'];
  const disarm = () => {
    const blocked = guard && guard.blocked;
    if (guard) for (const name of EVENTS) removeEventListener(name, guard.listen, true);
    guard = null;
    return blocked;
  };
  // Blocks mouse events that would reach another element, from now on.
  const arm = (element) => {
    disarm();
    guard = { blocked: null, decided: false };
    guard.listen = (event) => {
      if (!event.isTrusted || !guard) return;
      if (!guard.decided) {
        const hit = event.composedPath()[0];
        guard.decided = true;
        if (hit instanceof Element && !receives(element, hit)) guard.blocked = describe(hit);
      }
      if (guard.blocked) { event.preventDefault(); event.stopImmediatePropagation(); }
    };
    for (const name of EVENTS) addEventListener(name, guard.listen, true);
  };

  const deepActive = () => {
    let active = document.activeElement;
    while (active && active.shadowRoot && active.shadowRoot.activeElement) active = active.shadowRoot.activeElement;
    return active;
  };

  const changed = (element) => {
    element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    element.dispatchEvent(new Event('change', { bubbles: true }));
  };

  return {
    // Helpers for recording.js.
    helpers: { roots, squeeze, textOf, closest, parentOf, isVisible, find },

    // Returns the only matching element, or the number of matches.
    find(kind, value, exact) {
      const found = find[kind](value, exact);
      return found.length === 1 ? found[0] : found.length;
    },

    document: () => document,

    documents: () => [document],

    // Returns clickable elements without a role; `listening` are the elements with press listeners.
    clickable(...listening) {
      clickable = findClickable(listening);
      return [...clickable.keys()];
    },

    clickableNames: () => [...clickable.values()],

    clickableName: (element) => element.isConnected ? nameOf(element) : null,

    elementCount: () => document.getElementsByTagName('*').length,

    // Returns a batch of listable elements in reading order; the contents of a shadow root precede slotted elements.
    usable(from, count) {
      const found = [];
      const visit = (root) => {
        for (const element of root.querySelectorAll('*')) {
          if (found.length >= from + count) return;
          if (isUsable(element)) found.push(element);
          if (element.shadowRoot) visit(element.shadowRoot);
        }
      };
      visit(document);
      return found.slice(from);
    },

    isAttached: (element) => element.isConnected,

    states: (element) => ({ attached: element.isConnected, visible: element.isConnected && isVisible(element) }),

    anyVisible: (kind, value, exact) => {
      const found = find[kind](value, exact);
      return { attached: found.length, visible: found.filter(isVisible).length };
    },

    // Checks whether the element is ready for an action, and returns its point.
    async ready(element, needs) {
      if (!element.isConnected) return { missing: 'the element was removed', gone: true };
      // An element addressed by a point is visible there, and may move afterwards.
      const isPointedAt = needs.at !== null;
      const label = isPointedAt ? null : labelInPlaceOf(element);
      let target = isPointedAt || isVisible(element) ? element : label;
      if (!target) return { missing: 'the element is not visible' };
      if (needs.enabled && isDisabled(controlOf(element))) return { missing: 'the element is disabled' };
      let editing = null;
      if (needs.editable) {
        editing = kindOfEditing(element);
        if (!editing) return { missing: 'the element is not editable' };
      }
      if (label && !pointOf(target) && needs.scroll) target = label;
      if (needs.scroll) target.scrollIntoView({ block: needs.scroll, inline: 'center', behavior: 'instant' });
      // Compares the box in the current and the next animation frame, since animations change only with frames. An
      // animation that starts with the next frame is at its start there, so the following frame is compared as well.
      const before = boxOf(target);
      let drawn = await frame();
      if (!isPointedAt && element.isConnected && isAnimated(target)) {
        drawn = drawn && await frame();
        if (!drawn) return { missing: 'the element is moving' };
      }
      if (!element.isConnected) return { missing: 'the element was removed', gone: true };
      if (!isPointedAt && boxOf(target) !== before) return { missing: 'the element is moving' };
      let point = isPointedAt ? pointedAt(needs.at) : pointOf(target);
      if (!point) return { missing: 'the element is outside of the viewport', scroll: true };
      if (needs.hit) {
        const hit = hitAt(point.x, point.y);
        if (!hit) return { missing: 'the element is outside of the viewport', scroll: true };
        if (!mayReceive(element, hit)) {
          const other = label && target !== label && pointOf(label);
          const labelHit = other && hitAt(other.x, other.y);
          if (!labelHit || !mayReceive(element, labelHit)) {
            return { missing: `the element is covered by ${describe(hit)}`, scroll: true };
          }
          point = other;
        }
        if (needs.guard) arm(element);
      }
      const draggable = closest(element, (at) => at.draggable === true) !== null;
      return { x: point.x, y: point.y, editing, draggable };
    },

    disarm,

    // Converts a point in a frame to the page around it.
    through(owner, x, y, needsHit) {
      const box = owner.getBoundingClientRect();
      const style = getComputedStyle(owner);
      const [scaleX, scaleY] = [box.width / owner.offsetWidth || 1, box.height / owner.offsetHeight || 1];
      const px = box.left + (owner.clientLeft + parseFloat(style.paddingLeft) + x) * scaleX;
      const py = box.top + (owner.clientTop + parseFloat(style.paddingTop) + y) * scaleY;
      const hit = hitAt(px, py);
      if (!hit) return { missing: 'the element is outside of the viewport', scroll: true };
      if (needsHit && !isWithin(hit, owner)) {
        return { missing: `the frame of the element is covered by ${describe(hit)}`, scroll: true };
      }
      return { x: px, y: py };
    },

    focus(element) {
      element.focus({ preventScroll: true });
      return isWithin(deepActive(), element) || deepActive() === element;
    },

    blur: (element) => { element.blur(); return deepActive() !== element; },

    // Places the caret at the end, or selects everything.
    place(element, all) {
      if (element.isContentEditable) {
        const selection = getSelection();
        selection.selectAllChildren(element);
        if (!all) selection.collapseToEnd();
      } else if (all) {
        element.select();
      } else {
        try { element.setSelectionRange(element.value.length, element.value.length); } catch { /* it has no caret */ }
      }
      return element.isContentEditable ? element.textContent.length > 0 : element.value.length > 0;
    },

    setValue(element, value) {
      const prototype = Object.getPrototypeOf(element);
      Object.getOwnPropertyDescriptor(prototype, 'value').set.call(element, value);
      if (element.value !== value) return false;
      changed(element);
      return true;
    },

    select(element, by, wanted) {
      const select = controlOf(element);
      if (select.localName !== 'select') return { wrong: 'the element is not a `select`' };
      const options = [...select.options];
      const option = by === 'index' ? options[wanted]
        : options.find((at) => by === 'value' ? at.value === wanted : squeeze(at.label || at.text) === squeeze(wanted));
      if (!option) return { missing: `no option has this ${by}` };
      if (isDisabled(option)) return { missing: 'the option is disabled' };
      select.focus({ preventScroll: true });
      if (!option.selected || select.multiple) {
        option.selected = true;
        changed(select);
      }
      return {};
    },

    checked(element) {
      const control = controlOf(element);
      if (control.localName === 'input' && ['checkbox', 'radio'].includes(control.type)) return control.checked;
      const said = control.getAttribute('aria-checked');
      return said === null ? null : said === 'true';
    },

    isFileInput: (element) => {
      const control = controlOf(element);
      return control.localName === 'input' && control.type === 'file';
    },

    async scrollTo(element) {
      element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
      await frame();
    },

    box(element) {
      const { x, y, width, height } = element.getBoundingClientRect();
      return { x: x + scrollX, y: y + scrollY, width, height };
    },

    center: () => ({ x: innerWidth / 2, y: innerHeight / 2 }),

    frames: async () => { await frame(); await frame(); },

    title: () => document.title.slice(0, 1000),

    // Longer text is never shown.
    html: () => document.documentElement ? document.documentElement.outerHTML.slice(0, 1 << 24) : '',
  };
})()
