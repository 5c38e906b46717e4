import { ApiError, api, asApiError, ok, type Schemas } from '../../lib/api';
import { approvals } from '../../lib/approvals.svelte';
import { serverEvents } from '../../lib/sse';
import { toastError } from '../../lib/ui/toast.svelte';
import { conversations, type Entry } from './conversations.svelte';
import { shown, type Message } from './message';
import { Reply } from './reply';
import { isBudget, isRetryable, isRefusal, randomKey, unsent, type Unsent } from './unsent';

/** Number of messages loaded first. */
const INITIAL_MESSAGES = 30;
/** Number of earlier messages loaded at a time. */
const PAGE_SIZE = 60;
/** Maximum number of messages kept after a reply. */
const MAX_KEPT_MESSAGES = 100;

/** Initial settings of a new conversation. */
export interface Beginning {
  agent: string | null;
  mode: Schemas['Mode'];
  executionMode: Schemas['ExecutionMode'];
}

/** A conversation with its messages and the reply in progress. */
export class Conversation {
  id = $state<string | null>(null);
  entry = $state<Entry | null>(null);
  messages = $state<Message[]>([]);
  /** Number of messages before the loaded ones. */
  earlier = $state(0);
  loaded = $state(false);
  problem = $state<unknown>(null);
  /** The budget error of the last message. */
  refusal = $state<ApiError | null>(null);
  /** Messages queued during a reply; sent one after the other, and kept over a reload of the tab. */
  queue = $state<Unsent[]>([]);
  model = $state<string | null>(null);
  /** Session id of the reply in progress. */
  session = $state<string | null>(null);
  sending = $state(false);
  /** Last complete sentence of the reply, for screen readers. */
  announced = $state('');

  #draft = $state('');
  /** A reply has ended and the stored messages are being loaded. */
  #settling = $state(false);
  /** The message that was sent but not acknowledged. */
  #underWay: Unsent | null = null;
  #follows: AbortController | null = null;

  constructor(id: string | null) {
    this.id = id;
    if (!id) this.loaded = true;
    else this.queue = JSON.parse(sessionStorage.getItem(`queue:${id}`) ?? '[]');
    this.#draft = localStorage.getItem(`draft:${id ?? 'new'}`) ?? '';
  }

  /** Unsent text, kept over reloads and a new sign-in. */
  get draft(): string {
    return this.#draft;
  }

  set draft(text: string) {
    this.#draft = text;
    const place = `draft:${this.id ?? 'new'}`;
    if (text) localStorage.setItem(place, text);
    else localStorage.removeItem(place);
  }

  get busy(): boolean {
    return this.sending || this.session !== null || this.#settling;
  }

  async load() {
    if (!this.id) return;
    try {
      const count = this.entry?.message_count ?? conversations.list.find(({ id }) => id === this.id)?.message_count ?? 0;
      const wanted = Math.max(INITIAL_MESSAGES, Math.min(MAX_KEPT_MESSAGES, this.messages.length));
      const offset = Math.max(0, count - wanted);
      let found = await this.#page(offset, 200);
      // Messages were added or truncated.
      const first = Math.max(0, found.message_count - wanted);
      if (first < offset || found.message_count > offset + 200) found = await this.#page(first, 200);
      else if (!this.loaded) found.messages.splice(0, first - offset);
      this.#take(found);
      this.problem = null;
      const last = found.messages.at(-1);
      if (last?.status === 'running' && last.session_id) void this.attach(last.session_id);
      else void this.#sendNext();
    } catch (problem) {
      if (!this.sending && !this.session) this.problem = problem;
    }
    this.loaded = true;
  }

  async #page(offset: number, limit: number) {
    const part = (offset: number, limit: number) =>
      ok(api.GET('/api/chat/conversations/{id}', { params: { path: { id: this.id! }, query: { offset, limit } } }));
    const found = await part(offset, limit);
    // Pages of long messages may be shorter than the limit.
    while (found.messages.length < Math.min(limit, found.message_count - offset)) {
      const { messages } = await part(offset + found.messages.length, limit - found.messages.length);
      if (messages.length === 0) break;
      found.messages.push(...messages);
    }
    return found;
  }

  #take({ messages, ...entry }: Schemas['ConversationWithMessages']) {
    this.entry = entry;
    this.earlier = Math.max(0, entry.message_count - messages.length);
    const known = new Map(this.messages.map((message) => [message.id, message]));
    this.messages = messages.map((message) => {
      const before = known.get(message.id);
      const next = shown(message);
      if (!before) return next;
      const kept = { key: before.key, sessionId: next.sessionId ?? before.sessionId, error: before.error };
      // The stream may be ahead of the stored messages.
      const isLive = this.session !== null && before.status === 'running' && before.parts.length > 0;
      return isLive ? { ...next, ...kept, parts: before.parts, status: 'running' } : { ...next, ...kept };
    });
  }

  async loadEarlier() {
    const end = this.earlier;
    const offset = Math.max(0, end - PAGE_SIZE);
    const { messages } = await this.#page(offset, end - offset);
    // Loaded twice, or everything was reloaded meanwhile.
    if (this.earlier !== end) return;
    const known = new Set(this.messages.map(({ id }) => id));
    this.messages = [...messages.filter(({ id }) => !known.has(id)).map(shown), ...this.messages];
    this.earlier = offset;
  }

  async send(content: string, beginning?: Beginning): Promise<void> {
    // Keeps the order of queued messages.
    if (this.busy || this.queue.length > 0) {
      this.queue.push(unsent(content));
      this.#keep();
      return this.#sendNext();
    }
    try {
      await this.#send(unsent(content), beginning);
    } catch (problem) {
      if (!this.id || !isRetryable(problem)) throw problem;
      this.#putBack(content);
      this.#sendLater();
    }
  }

  /** Removes a queued message. */
  unqueue(place: number) {
    this.queue.splice(place, 1);
    this.#keep();
  }

  #keep() {
    if (!this.id) return;
    const kept = [...(this.#underWay ? [this.#underWay] : []), ...this.queue];
    if (kept.length) sessionStorage.setItem(`queue:${this.id}`, JSON.stringify(kept));
    else sessionStorage.removeItem(`queue:${this.id}`);
  }

  async #send(unsent: Unsent, beginning?: Beginning): Promise<void> {
    const { content } = unsent;
    this.sending = true;
    this.problem = this.refusal = null;
    const question: Message = $state({ key: randomKey(), id: null, role: 'user', parts: [{ kind: 'text', text: content }], status: 'complete', sessionId: null, at: new Date().toISOString() });
    this.messages.push(question);
    try {
      if (!this.id && beginning && (beginning.mode !== 'agent' || beginning.executionMode !== 'autonomous')) {
        const body = { agent_id: beginning.agent, mode: beginning.mode, execution_mode: beginning.executionMode };
        this.entry = await ok(api.POST('/api/chat/conversations', { body }));
        this.id = this.entry.id;
        conversations.adopt(this);
      }
      unsent.body ??= JSON.stringify({ content, model: this.model, ...(this.id ? { conversation_id: this.id } : { agent_id: beginning?.agent }) });
      this.#underWay = unsent;
      this.#keep();
      await this.#follow('/api/chat/messages/stream', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'Idempotency-Key': unsent.key },
        body: unsent.body,
      });
    } catch (problem) {
      this.#underWay = null;
      this.#keep();
      // Rejected: the text returns to the composer.
      this.messages = this.messages.filter((message) => message.key !== question.key);
      this.problem = asApiError(problem);
      if (isBudget(problem)) this.refusal = this.problem as ApiError;
      this.sending = false;
      throw problem;
    }
  }

  /** Attaches to a reply in progress, from its beginning. */
  async attach(session: string) {
    if (this.session === session || this.sending) return;
    if (document.hidden) {
      // Browsers allow six connections per host across tabs, so background replies are not streamed.
      conversations.busy.set(this.id!, session);
      return;
    }
    // Started elsewhere: load the message it replies to.
    if (!this.messages.some(({ sessionId }) => sessionId === session)) await this.load();
    if (this.session || this.sending) return;
    const message = this.messages.find((message) => message.sessionId === session && message.role === 'assistant');
    if (message && message.status !== 'running') return;
    this.session = session;
    if (message) message.parts = [];
    void this.#follow(`/api/chat/sessions/${encodeURIComponent(session)}/stream`, {}).catch(() => {
      // Without a stream, nothing may wait for its end.
      if (this.session === session) this.session = null;
      void this.#sendNext();
    });
  }

  /** Reads a reply to its end, reconnecting as needed. */
  async #follow(path: string, init: RequestInit) {
    const follows = (this.#follows = new AbortController());
    const reply = new Reply(this);
    let wait = 500;
    let to = path;
    let how: RequestInit = init;
    while (!reply.ended && !follows.signal.aborted) {
      try {
        for await (const event of serverEvents(to, { ...how, signal: follows.signal })) {
          wait = 500;
          reply.take(event);
          if (!this.sending) continue;
          this.sending = false;
          this.#underWay = null;
          this.#keep();
        }
      } catch (problem) {
        if (follows.signal.aborted) break;
        if (!reply.session && isRefusal(problem)) throw problem;
        if (asApiError(problem).status === 404) break;
      }
      if (reply.ended || follows.signal.aborted) break;
      if (reply.session) {
        to = `/api/chat/sessions/${encodeURIComponent(reply.session)}/stream?last_event_id=${reply.last}`;
        how = {};
      }
      // Repeating the request with the same Idempotency-Key reattaches to the reply.
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 10_000);
    }
    reply.flush();
    // Messages typed before the next one is sent are queued behind it.
    this.#settling = !follows.signal.aborted;
    this.sending = false;
    this.session = null;
    if (follows.signal.aborted) return;
    if (this.id) conversations.busy.delete(this.id);
    await Promise.all([this.load(), conversations.load()]);
    this.#settling = false;
    void approvals.load();
    void this.#sendNext();
  }

  /** Sends the next queued message, unless a reply is in progress, whose end calls this again. */
  async #sendNext() {
    const next = this.busy ? undefined : this.queue.shift();
    if (next === undefined) return;
    try {
      await this.#send(next);
    } catch (problem) {
      this.#putBack(next.content);
      if (isRetryable(problem)) this.#sendLater();
      else if (!isBudget(problem)) toastError(problem);
    }
  }

  /** On rejection, the message is sent first, as a separate request. */
  #putBack(content: string) {
    this.queue.unshift(unsent(content));
    this.#keep();
  }

  #sendLater() {
    setTimeout(async () => {
      // The reply in progress may belong to a message sent elsewhere.
      if (!this.busy) await this.load();
      void this.#sendNext();
    }, 1000);
  }

  /** Stops streaming a background reply; it is loaded when the conversation is opened or the reply has ended. */
  release() {
    if (this.session && !this.sending) this.#follows?.abort();
  }

  async stop() {
    const session_id = this.session;
    if (session_id) await ok(api.POST('/api/chat/sessions/{session_id}/cancel', { params: { path: { session_id } } }));
  }

  /** Replaces a user message and deletes the later ones; returns whether it succeeded. */
  async resend(message: Message, content: string): Promise<boolean> {
    if (!this.id || this.busy) return false;
    this.sending = true;
    try {
      // Messages before the loaded ones are kept.
      if (this.earlier > 0 && this.messages[0]?.key === message.key) await this.loadEarlier();
      const at = this.messages.findIndex(({ key }) => key === message.key);
      const before = this.messages[at - 1];
      if (at < 0 || (before ? !before.id : this.earlier > 0)) {
        this.sending = false;
        return false;
      }
      const cut = before?.id ? { after_message_id: before.id } : { keep_last: 0 };
      await ok(api.POST('/api/chat/messages/truncate', { body: { conversation_id: this.id, ...cut } }));
      this.messages = this.messages.slice(0, at);
    } catch (problem) {
      this.sending = false;
      throw problem;
    }
    try {
      await this.#send(unsent(content));
    } catch (problem) {
      // The original is already deleted, so the new text stays visible in the queue.
      this.#putBack(content);
      if (!isRetryable(problem)) throw problem;
      this.#sendLater();
    }
    return true;
  }

  /** Adds a message without a reply. */
  async inject(role: Schemas['Role'], content: string) {
    if (!this.id) return;
    await ok(api.POST('/api/chat/messages/inject', { body: { conversation_id: this.id, role, content } }));
    await this.load();
  }

  async setMode(mode: Schemas['Mode']) {
    await ok(api.PATCH('/api/chat/conversations/{id}/mode', { params: { path: { id: this.id! } }, body: { mode } }));
    if (this.entry) this.entry.mode = mode;
  }

  async setExecutionMode(execution_mode: Schemas['ExecutionMode']) {
    await ok(api.PUT('/api/chat/conversations/{id}/execution-mode', { params: { path: { id: this.id! } }, body: { execution_mode } }));
    if (this.entry) this.entry.execution_mode = execution_mode;
  }

  leave() {
    this.#follows?.abort();
    this.session = null;
    this.#underWay = null;
    this.queue = [];
    this.#keep();
  }
}

export function isNotThere(problem: unknown): boolean {
  return problem instanceof ApiError && problem.status === 404;
}
