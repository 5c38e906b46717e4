// Events of the daemon. The tabs of a browser share one stream: the tab that holds the lock reads it and broadcasts the
// events; when it closes, the next tab gets the lock and resumes after the last event.

import { serverEvents } from './sse';
import { ApiError } from './api';

export interface LiveEvent {
  id: string;
  type: string;
  at?: string;
  // Fields depend on the event type.
  data: Record<string, any>;
}
type Listener = (event: LiveEvent) => void;
type Shared = { event: LiveEvent } | { connected: boolean } | { ask: true };

const STREAM = '/api/events/stream';
const MAX_RECONNECT_DELAY_MS = 15_000;

class Live {
  /** Whether the stream is connected; while it is not, views may be outdated. */
  connected = $state(true);
  /** Incremented when events were missed, so that lists are reloaded. */
  resets = $state(0);

  #listeners = new Set<{ types: string[]; call: Listener }>();
  #channel: BroadcastChannel | null = null;
  #end: AbortController | null = null;
  #last = '';

  /** Subscribes to events whose type is in `types` or has a prefix in it that ends in a dot; returns the unsubscribe function. */
  on(types: string[], call: Listener): () => void {
    const listener = { types, call };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start() {
    if (this.#end) return;
    const end = (this.#end = new AbortController());
    const read = () => this.#read(end.signal);
    // Without the Locks API (plain HTTP on another host) each tab reads its own stream.
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
        // An interrupted stream is reopened silently; a failure to open one is shown.
        if (!signal.aborted && wait > 500) this.#share({ connected: false });
      }
      if (signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, wait + Math.random() * 500));
      wait = Math.min(wait * 2, MAX_RECONNECT_DELAY_MS);
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
