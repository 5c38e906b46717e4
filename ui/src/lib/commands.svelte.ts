export interface Command {
  label: string;
  /** Additional search terms. */
  also?: string;
  hint?: string;
  run: () => void;
}

class Commands {
  open = $state(false);
  help = $state(false);
  #sources = new Set<() => Command[]>();

  /** Adds commands to the palette while a view is mounted: `$effect(() => commands.add(() => […]))`. */
  add(source: () => Command[]): () => void {
    this.#sources.add(source);
    return () => this.#sources.delete(source);
  }

  all(): Command[] {
    return [...this.#sources].flatMap((source) => source());
  }
}

export const commands = new Commands();

/** Whether a key press goes to a text field. */
export function isTyping(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement | null;
  return !!at && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName));
}

export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
