import { errorOf, send } from './api';

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** The daemon writes each 15 seconds at least: nothing for so long comes from a connection that is there no more. */
const SILENT_MS = 45_000;

/** Reads Server-Sent Events of a request; `EventSource` can send neither a body nor a header. */
export async function* serverEvents(path: string, init: RequestInit): AsyncGenerator<ServerEvent> {
  const headers = { Accept: 'text/event-stream', ...(init.headers as Record<string, string>) };
  const response = await send(path, { ...init, headers });
  if (!response.ok || !response.body) throw await errorOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    while (true) {
      const silent = setTimeout(() => void reader.cancel().catch(() => {}), SILENT_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

function parse(block: string): ServerEvent | null {
  const event: ServerEvent = { id: '', event: 'message', data: '' };
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon < 1) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    const field = line.slice(0, colon);
    if (field === 'id' || field === 'event') event[field] = value;
    else if (field === 'data') event.data += event.data ? `\n${value}` : value;
  }
  return event.data ? event : null;
}
