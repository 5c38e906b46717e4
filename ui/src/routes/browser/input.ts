// Queue of user actions in the frame. Each action is sent after the previous one has been answered; wheel events in
// between are merged.

import type { Action, ActionName } from './browser.svelte';
import { t } from './texts';

interface Input {
  action: ActionName;
  fields: Partial<Action>;
}

/** Maximum age of a queued key press. */
const MAX_QUEUED = 200;

export class InputQueue {
  #waiting: Input[] = [];
  #sending = false;

  constructor(
    private readonly send: (action: ActionName, fields: Partial<Action>) => Promise<unknown>,
    private readonly onproblem: (error: unknown) => void,
  ) {}

  add(action: ActionName, fields: Partial<Action>) {
    const last = this.#waiting.at(-1);
    if (last?.action === 'scroll' && action === 'scroll' && last.fields.selector === fields.selector) {
      last.fields.x = (last.fields.x ?? 0) + (fields.x ?? 0);
      last.fields.y = (last.fields.y ?? 0) + (fields.y ?? 0);
    } else if (this.#waiting.length < MAX_QUEUED) this.#waiting.push({ action, fields: { ...fields } });
    else this.onproblem(new Error(t('tooFast')));
    void this.#run();
  }

  clear() {
    this.#waiting = [];
  }

  async #run() {
    if (this.#sending) return;
    this.#sending = true;
    try {
      for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
        if (next.action === 'scroll' && !next.fields.x && !next.fields.y) continue;
        await this.send(next.action, next.fields);
      }
    } catch (error) {
      // Later actions relied on the failed one.
      this.clear();
      this.onproblem(error);
    } finally {
      this.#sending = false;
    }
  }
}

const NAMED_KEYS = new Set(['Enter', 'Tab', 'Backspace', 'Delete', 'Escape', 'ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'PageUp', 'PageDown', 'Insert']);

/** Converts a key press to an action, or undefined if it does not belong to the page. */
export function keyAction(event: KeyboardEvent): Input | null {
  const { key } = event;
  const character = [...key].length === 1;
  if (!character && !NAMED_KEYS.has(key) && !/^F([1-9]|1[0-2])$/.test(key)) return null;
  const isCommand = event.ctrlKey || event.metaKey || (event.altKey && !event.getModifierState('AltGraph'));
  // Characters outside the US keyboard layout are inserted as text.
  if (character && !isCommand && !/^[\x20-\x7e]$/.test(key)) return { action: 'type_text', fields: { selector: ':focus', text: key, timeout_ms: 2000 } };
  const held = [event.ctrlKey || event.metaKey ? 'Control' : '', isCommand && event.altKey ? 'Alt' : '', event.shiftKey && (isCommand || !character) ? 'Shift' : ''];
  return { action: 'press_key', fields: { key: [...held.filter(Boolean), key === ' ' ? 'Space' : key].join('+') } };
}
