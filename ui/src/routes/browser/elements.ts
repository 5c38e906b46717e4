export interface Element {
  /** `@4`, until the next look at the tab. */
  selector: string;
  role: string;
  name: string;
  /** What else is known of it: `disabled`, `value "Small"`. */
  state: string;
  disabled: boolean;
  /** Text can be put into it, or one of its options chosen. */
  takes: 'text' | 'option' | null;
}

const TEXT_ROLES = ['textbox', 'searchbox', 'spinbutton', 'slider'];

/** One line of a snapshot: `@4 textbox "Name" (value "Ada", disabled)`. */
export function readElement(line: string): Element | null {
  const found = /^\s*(@\d+) (\S+)(?: "((?:[^"\\]|\\.)*)")?(?: \((.*)\))?\s*$/.exec(line);
  if (!found?.[1] || !found[2]) return null;
  const [, selector, role, name = '', state = ''] = found;
  const takes = role === 'combobox' || role === 'listbox' ? 'option' : TEXT_ROLES.includes(role) ? 'text' : null;
  return { selector, role, name: name.replace(/\\(.)/g, '$1'), state, disabled: /(^|, )disabled(,|$)/.test(state), takes };
}
