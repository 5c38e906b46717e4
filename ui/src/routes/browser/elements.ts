export interface Element {
  /** What it is and is called, where nothing else is; otherwise `@4`, which is another after the next look at the tab. */
  selector: string;
  role: string;
  name: string;
  /** What else is known of it: `disabled`, `value "Small"`. */
  state: string;
  disabled: boolean;
  /** Text can be put into it, or one of its options chosen. */
  takes: 'text' | 'option' | null;
}

const TEXT_ROLES = ['textbox', 'searchbox', 'spinbutton', 'slider', 'date or time', 'colour'];

/** One line of a snapshot: `@4 textbox "Name" (value "Ada", disabled)`. */
function readElement(line: string): Element | null {
  const found = /^\s*(@\d+) ([^"]+?)(?: "((?:[^"\\]|\\.)*)")?(?: \((.*)\))?\s*$/.exec(line);
  if (!found?.[1] || !found[2]) return null;
  const [, selector, role, name = '', state = ''] = found;
  const takes = role === 'combobox' || role === 'listbox' ? 'option' : TEXT_ROLES.includes(role) ? 'text' : null;
  return { selector, role, name: name.replace(/\\(.)/g, '$1'), state, disabled: /(^|, )disabled(,|$)/.test(state), takes };
}

/** The elements of a snapshot; one that was cut off does not tell what there is once. */
export function readElements(snapshot: string, isCut: boolean): Element[] {
  const elements = snapshot.split('\n').map(readElement).filter((one) => one !== null);
  const key = ({ role, name }: Element) => `${role} ${name}`;
  const counts = new Map<string, number>();
  for (const element of elements) counts.set(key(element), (counts.get(key(element)) ?? 0) + 1);
  return elements.map((element) => {
    // Quotes of a name are written as ', and a long one ends in …: what it really is, is not known.
    const isKnown = !isCut && /^[a-z]+$/i.test(element.role) && element.name && !/['…]/.test(element.name);
    return isKnown && counts.get(key(element)) === 1 ? { ...element, selector: `role=${element.role}[name="${element.name.replace(/["\\]/g, '\\$&')}"]` } : element;
  });
}
