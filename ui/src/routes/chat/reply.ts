import { approvals } from '../../lib/approvals.svelte';
import type { ServerEvent } from '../../lib/sse';
import type { Conversation } from './conversation.svelte';
import { conversations } from './conversations.svelte';
import type { Message, Part, ToolCall } from './message';

/** Render interval; rendering each token would exceed the display's frame rate. */
const FLUSH_INTERVAL_MS = 60;

/** Applies the events of a reply to its message. */
export class Reply {
  session: string | null = null;
  ended = false;
  last = -1;
  #message: Message | null = null;
  #text = '';
  #unsaid = '';
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private conversation: Conversation) {}

  take({ id, event, data }: ServerEvent) {
    const seq = Number(id);
    // A repeated request streams the reply from its beginning.
    if (id && seq <= this.last) return;
    if (id) this.last = seq;
    const body = JSON.parse(data) as Record<string, any>;
    if (event === 'start') return this.#start(body as { conversation_id: string; message_id: string; session_id: string });
    if (!this.#message) return;
    if (event === 'token') {
      this.#text += body.content;
      this.#timer ??= setTimeout(() => this.flush(), FLUSH_INTERVAL_MS);
      return;
    }
    this.flush();
    if (event === 'tool_use') {
      const call = this.#call(body.call_id, body.tool, body.input);
      Object.assign(call, { status: 'running', startedAt: Date.now() });
    } else if (event === 'approval_request') {
      const call = this.#call(body.call_id, body.tool, body.input);
      Object.assign(call, { status: 'waiting', approval: { id: body.approval_id, expiresAt: body.expires_at, sources: body.untrusted_sources ?? [] } });
      void approvals.load();
    } else if (event === 'tool_result') {
      const call = this.#call(body.call_id, body.tool, null);
      Object.assign(call, { status: body.status ?? 'done', output: body.output, durationMs: call.startedAt ? Date.now() - call.startedAt : null });
    } else if (event === 'done') {
      this.#end('complete');
      this.#message.tokens = { input: body.input_tokens, output: body.output_tokens };
      this.#message.model = `${body.provider}/${body.model}`;
    } else if (event === 'error') {
      this.#end(body.code === 'cancelled' ? 'cancelled' : 'failed');
      this.#message.error = { code: body.code, message: body.message };
    }
  }

  #start({ conversation_id, message_id, session_id }: { conversation_id: string; message_id: string; session_id: string }) {
    const { conversation } = this;
    this.session = session_id;
    conversation.session = session_id;
    if (!conversation.id) {
      conversation.id = conversation_id;
      conversations.adopt(conversation);
    }
    conversations.busy.set(conversation_id, session_id);
    conversations.boundStreams(conversation);
    let message = conversation.messages.find(({ id }) => id === message_id);
    if (!message) {
      conversation.messages.push({ key: message_id, id: message_id, role: 'assistant', parts: [], status: 'running', sessionId: session_id, at: new Date().toISOString() });
      message = conversation.messages.at(-1)!;
    } else {
      message.parts = [];
      message.status = 'running';
    }
    this.#message = message;
    void conversations.load();
  }

  #call(id: string, tool: string, input: unknown): ToolCall {
    // The message may have been replaced by the stored one, which has the same parts.
    const message = this.#current();
    const known = message.parts.find((part) => part.kind === 'tool' && part.call.id === id);
    if (known?.kind === 'tool') return known.call;
    message.parts.push({ kind: 'tool', call: { id, tool, input, output: null, status: 'running' } });
    return (message.parts.at(-1) as Extract<Part, { kind: 'tool' }>).call;
  }

  #current(): Message {
    const id = this.#message?.id;
    const now = this.conversation.messages.find((message) => message.id === id);
    if (now) this.#message = now;
    return this.#message!;
  }

  flush() {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (!this.#text || !this.#message) return;
    const message = this.#current();
    const part = message.parts.at(-1);
    if (part?.kind === 'text') part.text += this.#text;
    // Texts of different rounds are separate paragraphs.
    else message.parts.push({ kind: 'text', text: this.#text.replace(/^\n+/, '') });
    this.#announce(this.#text);
    this.#text = '';
  }

  #announce(text: string) {
    this.#unsaid += text;
    const end = Math.max(...['. ', '! ', '? ', '\n'].map((mark) => this.#unsaid.lastIndexOf(mark)));
    if (end < 0) return;
    this.conversation.announced = this.#unsaid.slice(0, end + 1).trim();
    this.#unsaid = this.#unsaid.slice(end + 1);
  }

  #end(status: Message['status']) {
    this.ended = true;
    const message = this.#current();
    message.status = status;
    for (const part of message.parts) {
      if (part.kind === 'tool' && (part.call.status === 'running' || part.call.status === 'waiting')) part.call.status = status === 'complete' ? 'done' : 'cancelled';
    }
    if (this.#unsaid.trim()) this.conversation.announced = this.#unsaid.trim();
  }
}
