import { ApiError, api, asApiError, errorOf, ok, send, type Schemas } from '../../lib/api';

export type Tab = Schemas['BrowserTab'];
export type Recording = Schemas['BrowserRecording'];
export type Action = Schemas['BrowserAction'];
export type ActionName = Action['action'];
export type Dialog = Schemas['BrowserDialog'];

/** State of the daemon's browser, shared by all sections of the view. */
class Browser {
  status = $state<Schemas['BrowserStatus'] | null>(null);
  tabs = $state<Tab[]>([]);
  problem = $state<unknown>(null);
  /** The daemon's message why the browser cannot start. */
  missing = $state<string | null>(null);
  /** The daemon was built without the browser. */
  absent = $state(false);
  /** Open page dialogs by tab. */
  #asked = $state.raw<Record<string, Dialog | null>>({});
  /** Whether a HAR is being recorded; the daemon reports it only on start and stop. */
  har = $state(false);
  /** The current recording. */
  recording = $state<Recording | null>(null);

  readonly active = $derived(this.tabs.find((tab) => tab.active) ?? null);
  /** The open dialog of the active tab. */
  readonly dialog = $derived(this.#asked[this.active?.tab_id ?? ''] ?? null);

  #loading: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** Runs one load at a time, because a hanging tab may delay it; events meanwhile trigger another one. */
  load(): Promise<void> {
    if (!this.#loading) return (this.#loading = this.#fetch().finally(() => (this.#loading = null)));
    return (this.#next ??= this.#loading.then(() => {
      this.#next = null;
      return this.load();
    }));
  }

  async #fetch() {
    try {
      const [status, { tabs }] = await Promise.all([ok(api.GET('/api/browser/status')), ok(api.GET('/api/browser/tabs'))]);
      [this.status, this.tabs, this.problem] = [status, tabs, null];
      if (!status.running) [this.#asked, this.har] = [{}, false];
    } catch (error) {
      this.problem = error;
      this.absent = error instanceof ApiError && error.status === 404;
    }
  }

  /** The daemon dismisses dialogs after 30 seconds. */
  #asks(tab_id: string, dialog: Dialog | null) {
    this.#asked = { ...this.#asked, [tab_id]: dialog };
    if (dialog) setTimeout(() => this.#asked[tab_id] === dialog && this.#asks(tab_id, null), 30_000);
  }

  /** Before the first start, the availability of the agents' tools tells whether the browser can start. */
  async checkChromium() {
    const { data } = await api.GET('/api/settings/skills/builtin').catch(() => ({ data: null }));
    const tool = data?.tools.find(({ name }) => name === 'browser_open');
    if (tool) this.missing = tool.available ? null : (tool.problem ?? null);
  }

  async loadRecording() {
    const { data } = await api.GET('/api/browser/recordings').catch(() => ({ data: null }));
    if (data) this.recording = data.recordings.find(({ state }) => state === 'running') ?? null;
  }

  /** Performs an action in the active tab, even if another one becomes active meanwhile; throws on failure. */
  async act(action: ActionName, fields: Partial<Action> = {}): Promise<Schemas['BrowserActionResult']> {
    const tab_id = fields.tab_id ?? this.active?.tab_id;
    try {
      const done = await ok(api.POST('/api/browser/action', { body: { ...fields, tab_id, action } }));
      this.missing = null;
      if (done.dialog || done.navigated || action === 'handle_dialog') this.#asks(done.tab_id, done.dialog?.answer === null ? done.dialog : null);
      return done;
    } catch (error) {
      const known = asApiError(error);
      if (known.code === 'browser_unavailable') this.missing = known.message;
      if (known.code === 'dialog_open' && tab_id && !this.#asked[tab_id]) this.#asks(tab_id, { kind: 'unknown', message: '', answer: null });
      throw error;
    } finally {
      if (this.recording) void this.loadRecording();
    }
  }
}

export const browser = new Browser();

/** Returns a response body as a file; throws an `ApiError` if the request failed. */
export async function fileOf(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Blob> {
  const response = await send(path, {
    method,
    headers: body === undefined ? undefined : { 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  return response.blob();
}

/** Saves fetched data as a file. */
export function download(name: string, content: Blob | string) {
  const url = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type: 'application/json' }) : content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Makes a name safe for files. */
export const fileName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'recording';
