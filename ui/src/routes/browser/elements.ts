export interface Element {
  /** Selector by role and name if unique; otherwise `@4`, which is valid only for this snapshot. */
  selector: string;
  role: string;
  name: string;
  /** State such as `disabled` or `value "Small"`. */
  state: string;
  disabled: boolean;
  /** Whether the element accepts text or an option. */
  takes: 'text' | 'option' | null;
}

const TEXT_ROLES = ['textbox', 'searchbox', 'spinbutton', 'slider', 'date or time', 'colour'];

/** Matches a line of a snapshot: `@4 textbox "Name" (value "Ada", disabled)`. */
function readElement(line: string): Element | null {
  const found = /^\s*(@\d+) ([^"]+?)(?: "((?:[^"\\]|\\.)*)")?(?: \((.*)\))?\s*$/.exec(line);
  if (!found?.[1] || !found[2]) return null;
  const [, selector, role, name = '', state = ''] = found;
  const takes = role === 'combobox' || role === 'listbox' ? 'option' : TEXT_ROLES.includes(role) ? 'text' : null;
  return { selector, role, name: name.replace(/\\(.)/g, '$1'), state, disabled: /(^|, )disabled(,|$)/.test(state), takes };
}

/** Parses the elements of a snapshot; in a truncated one, no name counts as unique. */
export function readElements(snapshot: string, isCut: boolean): Element[] {
  const elements = snapshot.split('\n').map(readElement).filter((one) => one !== null);
  const key = ({ role, name }: Element) => `${role} ${name}`;
  const counts = new Map<string, number>();
  for (const element of elements) counts.set(key(element), (counts.get(key(element)) ?? 0) + 1);
  return elements.map((element) => {
    // Names with replaced quotes or an ellipsis are not exact.
    const isKnown = !isCut && /^[a-z]+$/i.test(element.role) && element.name && !/['…]/.test(element.name);
    return isKnown && counts.get(key(element)) === 1 ? { ...element, selector: `role=${element.role}[name="${element.name.replace(/["\\]/g, '\\$&')}"]` } : element;
  });
}
