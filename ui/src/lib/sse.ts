import { createParser } from 'eventsource-parser';
import { errorOf, send } from './api';

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Idle time after which a connection is considered dead; the daemon sends a keep-alive every 15 seconds. */
const IDLE_TIMEOUT_MS = 45_000;

/** Reads Server-Sent Events of a request; `EventSource` can send neither a body nor a header. */
export async function* serverEvents(path: string, init: RequestInit): AsyncGenerator<ServerEvent> {
  const headers = { Accept: 'text/event-stream', ...(init.headers as Record<string, string>) };
  const response = await send(path, { ...init, headers });
  if (!response.ok || !response.body) throw await errorOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events: ServerEvent[] = [];
  const parser = createParser({ onEvent: ({ id = '', event = 'message', data }) => events.push({ id, event, data }) });
  try {
    while (true) {
      const silent = setTimeout(() => void reader.cancel().catch(() => {}), IDLE_TIMEOUT_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return;
      parser.feed(value);
      yield* events.splice(0);
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
