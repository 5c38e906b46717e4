// Functions for recordings and their replay, added to those of in_page.js in the same world.
(page) => {
  const { roots, squeeze, textOf, closest, parentOf, isVisible, find } = page.helpers;

  const MAX_LABEL = 200;
  const MAX_ALIKE = 500;
  const MAX_PIECES = 100;
  const MAX_PIECE = 100;
  const MAX_KEYS = 3;
  const MAX_SELECTOR = 2000;
  const UNSEEN = 'script,style,noscript,template';
  const FIELDS = 'input,select,textarea';
  const BUTTONS = ['submit', 'button', 'reset', 'image'];

  const cut = (text) => squeeze(text).slice(0, MAX_LABEL);
  const kindOf = (element) => {
    if (element.localName !== 'input') return '';
    // A field with a revealed password is the same field.
    return element.type === 'password' ? 'text' : element.type;
  };

  // Returns the text pieces in an element, without those in `leftOut`.
  const pieces = (element, leftOut) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    while (found.length < MAX_PIECES && walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (!parent || parent.closest(UNSEEN) || parent.closest(FIELDS) || (leftOut && leftOut.contains(parent))) continue;
      const text = squeeze(walker.currentNode.data);
      if (text && text.length <= MAX_PIECE) found.push(text);
    }
    return found;
  };

  const labelOf = (element) => {
    const root = element.getRootNode();
    const ids = (element.getAttribute('aria-labelledby') || '').split(/\s+/).filter(Boolean);
    const by = ids.map((id) => root.getElementById && root.getElementById(id)).filter(Boolean).map(textOf).join(' ');
    if (squeeze(by)) return cut(by);
    const said = element.getAttribute('aria-label');
    if (squeeze(said)) return cut(said);
    if (element.localName === 'input' && BUTTONS.includes(element.type)) return cut(element.value || element.alt || element.title);
    if (element.matches(FIELDS) || element.isContentEditable) {
      const labels = [...(element.labels || [])].flatMap((label) => pieces(label, element)).join(' ');
      return cut(labels || element.getAttribute('placeholder') || element.title);
    }
    const image = element.querySelector('img[alt]');
    return cut(textOf(element)) || cut(element.getAttribute('alt') || element.getAttribute('title') || (image && image.alt));
  };

  // Whether the contents of a field are secret, even if the page shows them.
  const SECRET_USES = /^(current-password|new-password|one-time-code|cc-number|cc-csc)$/;
  const SECRET_NAMES = /pass(word|wort|code|phrase|wd)|contrase|mot.?de.?passe|\b(pin|otp|cvc|cvv)\b|secret/i;
  const isSecret = (element) => {
    if (!element.matches('input,textarea')) return false;
    if (element.type === 'password') return true;
    if (element.localName === 'input' && !['text', 'tel', 'number', 'search'].includes(element.type)) return false;
    const uses = (element.getAttribute('autocomplete') || '').toLowerCase().split(/\s+/);
    return uses.some((use) => SECRET_USES.test(use)) ||
      [element.name, element.id, labelOf(element)].some((name) => SECRET_NAMES.test((name || '').replace(/[_-]/g, ' ')));
  };

  // Returns all elements with the same label, or only the visible ones if there are any.
  const alike = (tag, kind, label) => {
    const found = [];
    for (const root of roots()) {
      for (const at of root.querySelectorAll(CSS.escape(tag))) {
        if (found.length >= MAX_ALIKE) return found;
        if (kindOf(at) === kind && labelOf(at) === label) found.push(at);
      }
    }
    const shown = found.filter(isVisible);
    return shown.length ? shown : found;
  };
  const twinsOf = (element) => {
    const twins = alike(element.localName, kindOf(element), labelOf(element));
    return twins.includes(element) ? twins : [element];
  };

  // Counts the twins in each of their ancestors.
  const countAround = (twins) => {
    const counts = new Map();
    for (const twin of twins) for (let at = twin; at; at = parentOf(at)) counts.set(at, (counts.get(at) || 0) + 1);
    return counts;
  };
  // Returns the largest ancestor of a twin that contains no other twin.
  const surroundings = (element, counts, most) => {
    let [at, levels] = [element, 0];
    while (levels < most && parentOf(at) && counts.get(parentOf(at)) === 1) [at, levels] = [parentOf(at), levels + 1];
    return { at, levels };
  };

  // Returns texts around an element that distinguish it from its twins, and their level.
  const keysOf = (element, twins, label) => {
    if (twins.length === 1) {
      if (label) return { keys: [], levels: 0 };
      // An element without label is identified by the texts beside it.
      for (let [at, levels] = [parentOf(element), 1]; at; [at, levels] = [parentOf(at), levels + 1]) {
        const beside = pieces(at, element);
        if (beside.length) return { keys: beside.slice(0, MAX_KEYS), levels };
      }
      return { keys: [], levels: 0 };
    }
    const counts = countAround(twins);
    const own = surroundings(element, counts, Infinity);
    const others = new Set(twins.filter((twin) => twin !== element)
      .flatMap((twin) => pieces(surroundings(twin, counts, Infinity).at, twin)));
    const keys = [...new Set(pieces(own.at, element))].filter((piece) => !others.has(piece));
    return { keys: keys.slice(0, MAX_KEYS), levels: keys.length ? own.levels : 0 };
  };
  const hasKeys = (element, counts, keys, levels) => {
    if (!keys.length) return true;
    // Search slightly further than recorded, since a wrapper may have been added.
    const around = new Set(pieces(surroundings(element, counts, levels + 1).at, element));
    return keys.every((key) => around.has(key));
  };

  const hashOf = (text) => {
    let hash = 0x811c9dc5;
    for (const character of text) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193) >>> 0;
    return hash;
  };
  // Hash of the attributes, for elements that nothing else distinguishes.
  const markOf = (element) => {
    const isTyped = element.matches(FIELDS) && !['radio', 'checkbox', ...BUTTONS].includes(element.type);
    const names = element.getAttributeNames().filter((name) => !(isTyped && name === 'value')).sort();
    return hashOf(names.map((name) => `${name}=${element.getAttribute(name)}`).join('\n'));
  };
  // Hash of the neighbouring texts, which the twins may share.
  const aroundOf = (element, twins) =>
    twins.length > 1 ? hashOf(pieces(surroundings(element, countAround(twins), Infinity).at, element).join('\n')) : null;

  const TEST_IDS = ['data-testid', 'data-test-id', 'data-test', 'data-qa', 'data-cy'];
  const quoted = (value) => '"' + value.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\a ') + '"';
  const isUnique = (selector) => {
    let count = 0;
    for (const root of roots()) if ((count += root.querySelectorAll(selector).length) > 1) return false;
    return count === 1;
  };
  const testIdOf = (element) => {
    const name = TEST_IDS.find((at) => element.getAttribute(at));
    return name ? `[${name}=${quoted(element.getAttribute(name))}]` : null;
  };
  // Numbers and hashes in an ID change with each build or session.
  const idOf = (element) => element.id && !/\d{3,}|^:|[0-9a-f]{8,}/i.test(element.id) ? '#' + CSS.escape(element.id) : null;
  const placeOf = (element) => {
    const same = element.parentNode ? [...element.parentNode.children].filter((at) => at.localName === element.localName) : [];
    return same.indexOf(element) + 1;
  };
  const pathOf = (element) => {
    const steps = [];
    for (let at = element; at && at.nodeType === Node.ELEMENT_NODE; at = at.parentElement) {
      const anchor = at !== element && (testIdOf(at) || idOf(at));
      if (anchor && isUnique(anchor)) return [anchor, ...steps].join(' > ');
      steps.unshift(`${CSS.escape(at.localName)}:nth-of-type(${placeOf(at)})`);
    }
    return steps.join(' > ');
  };
  const xpathOf = (element) => {
    if (element.getRootNode() !== document) return null;
    let path = '';
    for (let at = element; at; at = at.parentElement) path = `/*[local-name()="${at.localName}"][${placeOf(at)}]` + path;
    return 'xpath=' + path.replaceAll(/\*\[local-name\(\)="([a-z][a-z0-9]*)"\]/g, (whole, name) =>
      element.ownerSVGElement || element.localName === 'svg' ? whole : name);
  };

  // Returns the currently unique selectors of an element, from most to least stable.
  const alternativesOf = (element, label) => {
    const found = [];
    const add = (kind, selector) => {
      if (selector && selector.length <= MAX_SELECTOR && isUnique(selector)) found.push({ kind, selector });
    };
    add('test_id', testIdOf(element));
    const tag = CSS.escape(element.localName);
    const attribute = (name, value) => value && value.length <= MAX_LABEL ? `[${name}=${quoted(value)}]` : '';
    if (['radio', 'checkbox'].includes(element.type))
      add('attribute', attribute('name', element.getAttribute('name')) && tag + attribute('name', element.name) + attribute('value', element.getAttribute('value')));
    for (const name of ['name', 'placeholder', 'alt', 'title', 'href']) {
      const value = element.getAttribute(name);
      // The query belongs to a single visit.
      if (value && !(name === 'href' && /[?#]/.test(value))) add('attribute', tag + attribute(name, value));
    }
    if (label && label.length < MAX_LABEL && !label.includes('"')) {
      const texts = find.text(label, true);
      if (texts.length === 1 && subjectOf(texts[0]) === element) found.push({ kind: 'text', selector: `text="${label}"` });
    }
    add('id', idOf(element));
    add('path', pathOf(element));
    const xpath = xpathOf(element);
    if (xpath && xpath.length <= MAX_SELECTOR) found.push({ kind: 'xpath', selector: xpath });
    return found;
  };

  const LIFTED_TO = 'button,a[href],summary,[role=button],[role=link],[role=menuitem],[role=tab],[role=option]';
  // Returns the control that the element is the whole of, or the button that contains it: a click on its text is a
  // click on the button.
  const subjectOf = (element) => {
    const control = closest(element, (at) => at.matches(LIFTED_TO));
    if (!control || control === element) return element;
    if (control.localName === 'button') return control;
    const label = labelOf(element);
    return label && labelOf(control) === label ? control : element;
  };

  // Concealed elements with the functions that reveal them again.
  let concealed = null;
  const restore = () => {
    if (!concealed) return;
    clearTimeout(concealed.late);
    for (const { element, value, priority } of concealed.styles) {
      if (value) element.style.setProperty('-webkit-text-security', value, priority);
      else element.style.removeProperty('-webkit-text-security');
      if (!element.getAttribute('style')) element.removeAttribute('style');
    }
    concealed = null;
  };
  const seenText = (node) => {
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    let text = '';
    while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest(UNSEEN)) text += walker.currentNode.data;
    return text;
  };
  // Returns the innermost elements that show one of the secrets, and fields that may contain one.
  const showing = (secrets) => {
    const shows = (text) => secrets.some((secret) => text.includes(secret));
    const found = [];
    for (const root of roots()) {
      for (const field of root.querySelectorAll('input,textarea'))
        if (field.type !== 'password' && field.value && (isSecret(field) || shows(field.value))) found.push(field);
      const whole = root === document ? document.documentElement : root;
      if (!secrets.length || !whole || !shows(seenText(whole))) continue;
      const visit = (at) => {
        const inner = [...at.children].filter((child) => !child.matches(UNSEEN) && shows(seenText(child)));
        if (inner.length) inner.forEach(visit);
        if (at.nodeType === Node.ELEMENT_NODE &&
          (!inner.length || [...at.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && shows(node.data)))) found.push(at);
      };
      visit(whole);
    }
    return found;
  };

  return Object.assign(page, {
    subject: (element) => subjectOf(element),

    // Describes an element with the means to find it again.
    described(element) {
      const label = labelOf(element);
      const twins = twinsOf(element);
      return {
        fingerprint: {
          tag: element.localName, kind: kindOf(element), label, twins: twins.length, ordinal: twins.indexOf(element),
          mark: markOf(element), around: aroundOf(element, twins), ...keysOf(element, twins, label),
        },
        alternatives: alternativesOf(element, label),
        is_secret: isSecret(element),
      };
    },

    // Returns the properties that are compared.
    compared(element, keys, levels) {
      const twins = twinsOf(element);
      return {
        tag: element.localName, kind: kindOf(element), label: labelOf(element), twins: twins.length,
        ordinal: twins.indexOf(element), mark: markOf(element), around: aroundOf(element, twins),
        has_keys: hasKeys(element, countAround(twins), keys, levels),
      };
    },

    // Returns the only element with this label and these texts around it, or the number of matches.
    called(tag, kind, label, keys, levels) {
      const twins = alike(tag, kind, label);
      const counts = countAround(twins);
      const found = twins.filter((twin) => hasKeys(twin, counts, keys, levels));
      return found.length === 1 ? found[0] : found.length;
    },

    // Whether the focused element takes secrets.
    focusIsSecret() {
      let active = document.activeElement;
      while (active && active.shadowRoot && active.shadowRoot.activeElement) active = active.shadowRoot.activeElement;
      return document.hasFocus() && active !== null && isSecret(active);
    },

    conceal(secrets) {
      restore();
      const styles = showing(secrets).filter((element) => element.style).map((element) => ({
        element, value: element.style.getPropertyValue('-webkit-text-security'),
        priority: element.style.getPropertyPriority('-webkit-text-security'),
      }));
      for (const { element } of styles) element.style.setProperty('-webkit-text-security', 'disc', 'important');
      // The caller may be gone before the picture is taken.
      concealed = { styles, late: setTimeout(restore, 5000) };
      return true;
    },

    // Returns whether everything stayed concealed until now.
    reveal(secrets) {
      if (!concealed) return false;
      const isConcealed = (element) => getComputedStyle(element).getPropertyValue('-webkit-text-security') === 'disc';
      const whole = showing(secrets).every(isConcealed);
      restore();
      return whole;
    },
  });
}
