// Routing by plain paths, so that links can be shared.

class Place {
  path = $state(location.pathname);
  search = $state(location.search);
  hash = $state(location.hash);
  /** Number of navigations, so that focus moves even if the address is unchanged. */
  moves = $state(0);
  query = $derived(new URLSearchParams(this.search));

  read() {
    this.path = location.pathname;
    this.search = location.search;
    this.hash = location.hash;
    this.moves += 1;
  }
}

export const place = new Place();

/** Guard of a view with unsaved changes. */
let guard: (() => boolean | Promise<boolean>) | null = null;
export function guardLeaving(ask: (() => boolean | Promise<boolean>) | null) {
  guard = ask;
}

export async function navigate(to: string, { replace = false } = {}) {
  if (guard && !(await guard())) return;
  guard = null;
  if (!replace) at += 1;
  history[replace ? 'replaceState' : 'pushState']({ at }, '', to);
  place.read();
}

/** Current position in the history, so that a cancelled navigation can be reverted. */
let at = 0;
/** Resolves the wait for a navigation by the page itself. */
let arrived: (() => void) | null = null;

function step(steps: number): Promise<void> {
  return new Promise((resolve) => {
    arrived = resolve;
    history.go(steps);
  });
}

/** The browser has already navigated; with unsaved changes it goes back until the user has confirmed. */
async function onStep({ state }: PopStateEvent) {
  if (arrived) {
    arrived();
    arrived = null;
    return;
  }
  const to = (state as { at?: number } | null)?.at;
  if (to === undefined) {
    // The entry comes from a fragment link on this page.
    at += 1;
    history.replaceState({ at }, '');
  } else {
    const steps = to - at;
    if (guard && steps) {
      await step(-steps);
      if (guard && !(await guard())) return;
      guard = null;
      await step(steps);
    }
    at = to;
  }
  place.read();
}

/** Changes query parameters, such as filters and tabs, without moving focus. */
export function setQuery(values: Record<string, string | number | null | undefined>) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === '') query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  history.replaceState({ at }, '', location.pathname + (text ? `?${text}` : '') + location.hash);
  place.search = location.search;
}

/** Returns the parameters of `path` for a pattern such as `/chat/:id?`, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/').filter(Boolean);
  const given = path.split('/').filter(Boolean);
  if (given.length > wanted.length) return null;
  const params: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const value = given[i];
    if (!part.startsWith(':')) {
      if (part !== value) return null;
    } else if (value !== undefined) {
      try {
        params[part.slice(1).replace('?', '')] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (!part.endsWith('?')) return null;
  }
  return params;
}

function onClick(event: MouseEvent) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.('a');
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  // Paths served by the daemon are not views.
  if (/^\/(api|health|v1|mcp|assets)(\/|$)/.test(link.pathname)) return;
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  void navigate(link.pathname + link.search + link.hash);
}

export function startRouter() {
  at = (history.state as { at?: number } | null)?.at ?? 0;
  history.replaceState({ at }, '');
  addEventListener('popstate', (event) => void onStep(event));
  document.addEventListener('click', onClick);
}
