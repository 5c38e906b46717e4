import { ApiError, api, asApiError, errorOf, ok, send, type Schemas } from '../../lib/api';

export type Tab = Schemas['BrowserTab'];
export type Recording = Schemas['BrowserRecording'];
export type Action = Schemas['BrowserAction'];
export type ActionName = Action['action'];
export type Dialog = Schemas['BrowserDialog'];

/** The one browser of the daemon, as all sections of the view show it. */
class Browser {
  status = $state<Schemas['BrowserStatus'] | null>(null);
  tabs = $state<Tab[]>([]);
  problem = $state<unknown>(null);
  /** Why there can be no browser, in the daemon's words. */
  missing = $state<string | null>(null);
  /** This daemon was built without it. */
  absent = $state(false);
  /** What pages ask and nobody has answered, by their tabs. */
  #asked = $state.raw<Record<string, Dialog | null>>({});
  /** Whether requests are kept as a HAR; the daemon says so only when it is asked to begin or to end. */
  har = $state(false);
  /** The recording that runs. */
  recording = $state<Recording | null>(null);

  readonly active = $derived(this.tabs.find((tab) => tab.active) ?? null);
  /** What the page that is shown asks. */
  readonly dialog = $derived(this.#asked[this.active?.tab_id ?? ''] ?? null);

  #loading: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** One at a time: a tab that hangs is waited for. What comes meanwhile is loaded after it. */
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

  /** After 30 seconds the daemon has answered for everybody. */
  #asks(tab_id: string, dialog: Dialog | null) {
    this.#asked = { ...this.#asked, [tab_id]: dialog };
    if (dialog) setTimeout(() => this.#asked[tab_id] === dialog && this.#asks(tab_id, null), 30_000);
  }

  /** Before anything was started, the tools of agents say whether it can be. */
  async lookForChromium() {
    const { data } = await api.GET('/api/settings/skills/builtin').catch(() => ({ data: null }));
    const tool = data?.tools.find(({ name }) => name === 'browser_open');
    if (tool) this.missing = tool.available ? null : (tool.problem ?? null);
  }

  async loadRecording() {
    const { data } = await api.GET('/api/browser/recordings').catch(() => ({ data: null }));
    if (data) this.recording = data.recordings.find(({ state }) => state === 'running') ?? null;
  }

  /** Does something in the tab that is shown, whichever becomes active meanwhile; throws what was wrong. */
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

/** An answer that is a file; throws an `ApiError` where it was refused. */
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

/** Hands what was fetched to the person as a file. */
export function download(name: string, content: Blob | string) {
  const url = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type: 'application/json' }) : content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A name as a file may have it. */
export const fileName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'recording';
