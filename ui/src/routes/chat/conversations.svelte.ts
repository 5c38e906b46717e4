import { SvelteMap } from 'svelte/reactivity';
import { api, ok, type Schemas } from '../../lib/api';
import { joined } from '../../lib/lists';
import { live } from '../../lib/live.svelte';
import { Conversation } from './conversation.svelte';

export type Entry = Schemas['ConversationView'];
const PAGE_SIZE = 50;
const MAX_OPEN = 20;
/** Maximum number of concurrent reply streams; browsers allow six connections per host across tabs. */
const MAX_STREAMS = 3;

/** All conversations, and the opened ones, which continue in the background. */
class Conversations {
  list = $state<Entry[]>([]);
  total = $state(0);
  loaded = $state(false);
  problem = $state<unknown>(null);
  projects = $state<Schemas['ProjectView'][]>([]);
  /** Project filter of the list. */
  project = $state<string | null>(null);
  open = new SvelteMap<string, Conversation>();
  /** Ids of conversations with a reply in progress. */
  busy = new SvelteMap<string, string>();
  /** Id of the visible conversation. */
  shown: string | null = null;
  #started = false;

  start() {
    if (this.#started) return;
    this.#started = true;
    void this.load();
    void this.loadProjects();
    live.on(['project.'], () => void this.loadProjects());
    live.on(['task.'], ({ type, data }) => this.#follow(type, data));
    live.on(['reset'], () => {
      this.busy.clear();
      void this.load();
      for (const conversation of this.open.values()) void conversation.load();
    });
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.shown && this.open.has(this.shown)) this.get(this.shown);
    });
  }

  get #ofProject() {
    return this.project ? { project_id: this.project } : {};
  }

  async loadProjects() {
    const { data } = await api.GET('/api/projects', { params: { query: { limit: 200 } } }).catch(() => ({ data: undefined }));
    this.projects = data?.projects ?? this.projects;
  }

  async showProject(id: string | null) {
    this.project = id;
    this.list = [];
    await this.load();
  }

  #follow(type: string, task: { conversation_id?: string | null; session_id?: string | null }) {
    const id = task.conversation_id;
    if (!id) return;
    if (type === 'task.started' || type === 'task.queued') {
      this.busy.set(id, task.session_id ?? '');
      if (task.session_id) void this.open.get(id)?.attach(task.session_id);
    } else if (type === 'task.completed' || type === 'task.failed') {
      this.busy.delete(id);
      void this.load();
      const open = this.open.get(id);
      if (open && !open.busy) void open.load();
    }
  }

  #loads = 0;

  async load() {
    const load = (this.#loads += 1);
    try {
      const { conversations, total } = await ok(api.GET('/api/chat/conversations', { params: { query: { limit: Math.min(200, Math.max(PAGE_SIZE, this.list.length)), ...this.#ofProject }  } }));
      // Ignores outdated responses.
      if (load !== this.#loads) return;
      this.list = conversations;
      this.total = total;
      this.problem = null;
    } catch (problem) {
      if (load === this.#loads) this.problem = problem;
    }
    this.loaded = true;
  }

  async more() {
    const { conversations, total } = await ok(api.GET('/api/chat/conversations', { params: { query: { limit: PAGE_SIZE, offset: this.list.length, ...this.#ofProject } } }));
    this.list = joined(this.list, conversations, ({ id }) => id);
    this.total = total;
  }

  get(id: string): Conversation {
    let conversation = this.open.get(id);
    if (!conversation) {
      conversation = new Conversation(id);
      this.#forget();
      this.open.set(id, conversation);
      void conversation.load();
    } else if (this.busy.has(id) && !conversation.busy) {
      // The reply is not streamed here.
      void conversation.load();
    }
    return conversation;
  }

  /** Stops streaming background replies, oldest conversations first. */
  boundStreams(newest: Conversation) {
    const read = [...this.open.values()].filter((open) => open.session !== null);
    const others = read.filter((open) => open !== newest && open.id !== this.shown);
    for (const open of others.slice(0, Math.max(0, read.length - MAX_STREAMS))) open.release();
  }

  /** Drops idle conversations from the cache; they are loaded again when opened. */
  #forget() {
    for (const [id, conversation] of this.open) {
      if (this.open.size < MAX_OPEN) return;
      if (!conversation.busy && !conversation.queue.length) this.open.delete(id);
    }
  }

  /** Adds a conversation that received its id with the first reply. */
  adopt(conversation: Conversation) {
    if (!conversation.id) return;
    this.open.set(conversation.id, conversation);
    // The draft belongs to it, not to the next new conversation.
    localStorage.removeItem('draft:new');
    conversation.draft = conversation.draft;
  }

  async change(id: string, change: Schemas['ConversationChange']) {
    const entry = await ok(api.PUT('/api/chat/conversations/{id}', { params: { path: { id } }, body: change }));
    this.list = this.list.map((other) => (other.id === id ? entry : other));
    const conversation = this.open.get(id);
    if (conversation) conversation.entry = entry;
  }

  async remove(id: string) {
    await ok(api.DELETE('/api/chat/conversations/{id}', { params: { path: { id } } }));
    this.list = this.list.filter((other) => other.id !== id);
    this.total -= 1;
    this.open.get(id)?.leave();
    this.open.delete(id);
  }
}

export const conversations = new Conversations();
