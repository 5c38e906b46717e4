import { ApiError, api, asApiError, ok, type Schemas } from '../../lib/api';
import { approvals } from '../../lib/approvals.svelte';
import { serverEvents } from '../../lib/sse';
import { toastError } from '../../lib/ui/toast.svelte';
import { conversations, type Entry } from './conversations.svelte';
import { shown, type Message } from './message';
import { Reply } from './reply';
import { isBudget, isForLater, isRefusal, randomKey, unsent, type Unsent } from './unsent';

/** So many messages are shown first: more would take longer to draw than anybody waits. */
const FIRST = 30;
/** So many come with each look further back. */
const PAGE = 60;
/** What is shown stays when a reply ends, up to so many. */
const KEPT = 100;

/** What a new conversation begins with. */
export interface Beginning {
  agent: string | null;
  mode: Schemas['Mode'];
  executionMode: Schemas['ExecutionMode'];
}

/** One conversation: what was said, and the reply that is being written. */
export class Conversation {
  id = $state<string | null>(null);
  entry = $state<Entry | null>(null);
  messages = $state<Message[]>([]);
  /** How many messages there are before those that are shown. */
  earlier = $state(0);
  loaded = $state(false);
  problem = $state<unknown>(null);
  /** Why the token budget refused the last message. */
  refusal = $state<ApiError | null>(null);
  /** Typed while a reply is written; sent one after the other, and kept over a reload of this tab. */
  queue = $state<Unsent[]>([]);
  model = $state<string | null>(null);
  /** The session of the reply that is being written. */
  session = $state<string | null>(null);
  sending = $state(false);
  /** A whole sentence of the reply, for those who listen. */
  announced = $state('');

  #draft = $state('');
  /** A reply has ended, and what the daemon made of it is being read. */
  #settling = $state(false);
  /** Sent, and not known to have arrived. */
  #underWay: Unsent | null = null;
  #follows: AbortController | null = null;

  constructor(id: string | null) {
    this.id = id;
    if (!id) this.loaded = true;
    else this.queue = JSON.parse(sessionStorage.getItem(`queue:${id}`) ?? '[]');
    this.#draft = localStorage.getItem(`draft:${id ?? 'new'}`) ?? '';
  }

  /** What is typed and not sent: kept over reloads, and while somebody has to sign in again. */
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
      const wanted = Math.max(FIRST, Math.min(KEPT, this.messages.length));
      const offset = Math.max(0, count - wanted);
      let found = await this.#page(offset, 200);
      // There are more by now, or some were cut off.
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
    // An answer ends early where its messages are long.
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
      // Its stream may be further than what was stored when this was read.
      const isLive = this.session !== null && before.status === 'running' && before.parts.length > 0;
      return isLive ? { ...next, ...kept, parts: before.parts, status: 'running' } : { ...next, ...kept };
    });
  }

  async loadEarlier() {
    const end = this.earlier;
    const offset = Math.max(0, end - PAGE);
    const { messages } = await this.#page(offset, end - offset);
    // Asked for twice, or everything was loaded anew meanwhile.
    if (this.earlier !== end) return;
    const known = new Set(this.messages.map(({ id }) => id));
    this.messages = [...messages.filter(({ id }) => !known.has(id)).map(shown), ...this.messages];
    this.earlier = offset;
  }

  async send(content: string, beginning?: Beginning): Promise<void> {
    // Nothing overtakes what waits already.
    if (this.busy || this.queue.length > 0) {
      this.queue.push(unsent(content));
      this.#keep();
      return this.#sendNext();
    }
    try {
      await this.#send(unsent(content), beginning);
    } catch (problem) {
      if (!this.id || !isForLater(problem)) throw problem;
      this.#putBack(content);
      this.#sendLater();
    }
  }

  /** Forgets what waits at this place. */
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
      // It was not taken: it goes back to where it was typed.
      this.messages = this.messages.filter((message) => message.key !== question.key);
      this.problem = asApiError(problem);
      if (isBudget(problem)) this.refusal = this.problem as ApiError;
      this.sending = false;
      throw problem;
    }
  }

  /** Shows a reply that is already being written, from its beginning, and goes on live. */
  async attach(session: string) {
    if (this.session === session || this.sending) return;
    if (document.hidden) {
      // A browser opens six connections to a host, over all tabs: one that nobody looks at waits for the end.
      conversations.busy.set(this.id!, session);
      return;
    }
    // It was begun elsewhere: what it answers is not here yet.
    if (!this.messages.some(({ sessionId }) => sessionId === session)) await this.load();
    if (this.session || this.sending) return;
    const message = this.messages.find((message) => message.sessionId === session && message.role === 'assistant');
    if (message && message.status !== 'running') return;
    this.session = session;
    if (message) message.parts = [];
    void this.#follow(`/api/chat/sessions/${encodeURIComponent(session)}/stream`, {}).catch(() => {
      // It cannot be followed: nothing may wait for its end.
      if (this.session === session) this.session = null;
      void this.#sendNext();
    });
  }

  /** Reads a reply to its end, over as many connections as that takes. */
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
      // The same request again reattaches to the same reply: it carries the same Idempotency-Key.
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 10_000);
    }
    reply.flush();
    // What is typed before the next one is sent goes behind it.
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

  /** Sends what was typed meanwhile, unless something else is being answered: its end leads here again. */
  async #sendNext() {
    const next = this.busy ? undefined : this.queue.shift();
    if (next === undefined) return;
    try {
      await this.#send(next);
    } catch (problem) {
      this.#putBack(next.content);
      if (isForLater(problem)) this.#sendLater();
      else if (!isBudget(problem)) toastError(problem);
    }
  }

  /** Refused, it is said before all others by a request of its own. */
  #putBack(content: string) {
    this.queue.unshift(unsent(content));
    this.#keep();
  }

  #sendLater() {
    setTimeout(async () => {
      // What is answered now may have been asked elsewhere, and is shown then.
      if (!this.busy) await this.load();
      void this.#sendNext();
    }, 1000);
  }

  /** Leaves a reply that nobody looks at to the daemon: it is read when somebody does, or when it has ended. */
  release() {
    if (this.session && !this.sending) this.#follows?.abort();
  }

  async stop() {
    const session_id = this.session;
    if (session_id) await ok(api.POST('/api/chat/sessions/{session_id}/cancel', { params: { path: { session_id } } }));
  }

  /** Says `content` in place of a message of the owner, and forgets what came after it; answers whether it could. */
  async sayAgain(message: Message, content: string): Promise<boolean> {
    if (!this.id || this.busy) return false;
    this.sending = true;
    try {
      // What stands before the first that is shown stays.
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
      // What it takes the place of is gone, so it waits where it can be seen.
      this.#putBack(content);
      if (!isForLater(problem)) throw problem;
      this.#sendLater();
    }
    return true;
  }

  /** Adds something without an answer. */
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
