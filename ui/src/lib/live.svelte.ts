// What happens in the daemon, as it happens: one stream a browser, shared among its tabs. The tab that holds the
// lock reads it and passes everything on; when it closes, the next one gets the lock and goes on after the last event.

import { serverEvents } from './sse';
import { ApiError } from './api';

export interface LiveEvent {
  id: string;
  type: string;
  at?: string;
  // Each kind of event has its own fields; whoever listens knows them.
  data: Record<string, any>;
}
type Listener = (event: LiveEvent) => void;
type Shared = { event: LiveEvent } | { connected: boolean } | { ask: true };

const STREAM = '/api/events/stream';
const LONGEST_WAIT_MS = 15_000;

class Live {
  /** Whether events arrive; while they do not, what is shown may be old. */
  connected = $state(true);
  /** Grows when events were missed: whoever shows a list loads it anew. */
  resets = $state(0);

  #listeners = new Set<{ types: string[]; call: Listener }>();
  #channel: BroadcastChannel | null = null;
  #end: AbortController | null = null;
  #last = '';

  /** Calls for events whose type is one of `types` or begins with one that ends in a dot; answers what ends it. */
  on(types: string[], call: Listener): () => void {
    const listener = { types, call };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start() {
    if (this.#end) return;
    const end = (this.#end = new AbortController());
    const read = () => this.#read(end.signal);
    // Without locks (plain http on another machine) each tab reads for itself.
    if (!navigator.locks) return void read();
    this.#channel = new BroadcastChannel('agentd-events');
    this.#channel.onmessage = ({ data }: MessageEvent<Shared>) => {
      if ('event' in data) this.#take(data.event);
      else if ('connected' in data) this.#show(data.connected);
    };
    void navigator.locks.request('agentd-events', { signal: end.signal }, read).catch(() => {});
  }

  stop() {
    this.#end?.abort();
    this.#channel?.close();
    this.#end = this.#channel = null;
  }

  async #read(signal: AbortSignal) {
    let wait = 500;
    while (!signal.aborted) {
      try {
        const headers: Record<string, string> = this.#last ? { 'Last-Event-ID': this.#last } : {};
        for await (const { id, event, data } of serverEvents(STREAM, { headers, signal })) {
          wait = 500;
          if (!this.connected) this.#share({ connected: true });
          const { timestamp, data: about } = JSON.parse(data) as { timestamp?: string; data?: LiveEvent['data'] };
          this.#share({ event: { id, type: event, at: timestamp, data: about ?? {} } });
        }
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return;
        // A stream that ended was cut off and is opened again; one that cannot be opened is worth a word.
        if (!signal.aborted && wait > 500) this.#share({ connected: false });
      }
      if (signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, wait + Math.random() * 500));
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  #share(message: Shared) {
    this.#channel?.postMessage(message);
    if ('event' in message) this.#take(message.event);
    else if ('connected' in message) this.#show(message.connected);
  }

  #show(connected: boolean) {
    this.connected = connected;
  }

  #take(event: LiveEvent) {
    if (event.id) this.#last = event.id;
    if (event.type === 'reset') this.resets += 1;
    for (const { types, call } of this.#listeners) {
      if (types.some((type) => (type.endsWith('.') ? event.type.startsWith(type) : event.type === type))) call(event);
    }
  }
}

export const live = new Live();
