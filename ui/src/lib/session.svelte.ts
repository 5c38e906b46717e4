import { agents } from './agents.svelte';
import { ApiError, api, asApiError, errorOf, ok, onSignedOut, send, type Schemas } from './api';
import { live } from './live.svelte';
import { deletePageSecret, pageSecret, storePageSecret } from './page-secret';
import { language } from './text.svelte';
import { common } from './texts';
import { theme, type Theme } from './theme.svelte';

/** State of the session: signed in or not, and whether the daemon is set up. */
class Session {
  stage = $state<'asking' | 'unreachable' | 'account' | 'login' | 'signed-in'>('asking');
  problem = $state<ApiError | null>(null);
  settings = $state<Schemas['AllSettings'] | null>(null);
  /** The session has expired. The view is kept until the user has signed in again. */
  isExpired = $state(false);
  /** API keys exist, so creating the account requires one of them. */
  needsKey = $state(false);

  /** Whether a page secret is stored; checking the session first then shows the page sooner. */
  get mayBeSignedIn(): boolean {
    return pageSecret() !== null;
  }

  async start() {
    this.problem = null;
    try {
      if (this.mayBeSignedIn && (await this.load())) return;
      const [{ needs_setup }, health] = await Promise.all([ok(api.GET('/api/auth/bootstrap')), ok(api.GET('/api/health'))]);
      if (needs_setup) {
        this.needsKey = !health.bootstrap_mode;
        this.stage = 'account';
      } else if (this.mayBeSignedIn || !(await this.load())) {
        this.stage = 'login';
      }
    } catch (error) {
      this.problem = asApiError(error);
      this.stage = 'unreachable';
    }
  }

  /** Loads the data that every view needs; returns false without a session. */
  async load(): Promise<boolean> {
    const [settings, list] = await Promise.all([api.GET('/api/settings'), api.GET('/api/agents')]);
    if (settings.response.status === 401) return false;
    if (!settings.data) throw await errorOf(settings.response, settings.error);
    this.takeSettings(settings.data);
    agents.take(list.data?.agents ?? (await ok(api.GET('/api/agents'))).agents);
    this.stage = 'signed-in';
    live.start();
    return true;
  }

  takeSettings(settings: Schemas['AllSettings']) {
    this.settings = settings;
    theme.set(settings.profile.theme ?? 'system');
  }

  #isChanging = false;
  #pending: Promise<boolean> | null = null;
  #resume: (signedIn: boolean) => void = () => {};

  /** Resolves to true when the user has signed in again, and immediately to false if nobody was signed in. */
  expire(): Promise<boolean> {
    if (this.#isChanging || this.stage !== 'signed-in') return Promise.resolve(false);
    this.isExpired = true;
    live.stop();
    void deletePageSecret();
    this.#pending ??= new Promise((resolve) => (this.#resume = resolve));
    return this.#pending;
  }

  #resumed() {
    this.isExpired = false;
    this.#pending = null;
    this.#resume(true);
  }

  /** Creates the account or signs in. One half of the session is an HttpOnly cookie. */
  async authenticate(how: 'register' | 'login', username: string, password: string, key?: string) {
    this.#isChanging = true;
    try {
      await this.#authenticate(how, username, password, key);
    } finally {
      this.#isChanging = false;
    }
    if (this.isExpired) this.#resumed();
  }

  async #authenticate(how: 'register' | 'login', username: string, password: string, key?: string) {
    const response = await send(`/api/auth/${how}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...(key && { Authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ username, password, cookie: true }),
    });
    if (!response.ok) throw await errorOf(response);
    await storePageSecret(((await response.json()) as { page_secret: string }).page_secret);
    const { bootstrap_mode } = await ok(api.GET('/api/health'));
    // Sessions are only accepted once a first key exists.
    if (bootstrap_mode) await ok(api.POST('/api/auth/keys', { body: { name: 'page', description: 'Created at the first sign-in on the page' } }));
    if (how === 'register') await this.#introduce(username);
    if (!(await this.load())) throw new ApiError(common('cookieRefused', { host: location.hostname }), 401, 'cookie_refused');
  }

  /** Sets name, time zone and language of a new owner from the browser. */
  async #introduce(username: string) {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    await api.PUT('/api/settings/profile', { body: { display_name: username, ...(timeZone && { timezone: timeZone }) } });
    await api.PUT('/api/settings/interface', { body: { language: language.current } });
  }

  async leave() {
    this.#isChanging = true;
    await api.POST('/api/auth/logout').catch(() => {});
    this.#isChanging = false;
    this.end();
  }

  end() {
    live.stop();
    void deletePageSecret();
    if (this.stage === 'signed-in') this.stage = 'login';
  }

  async setTheme(chosen: Theme) {
    theme.set(chosen);
    if (this.stage !== 'signed-in') return;
    const profile = await ok(api.PUT('/api/settings/profile', { body: { theme: chosen } })).catch(() => null);
    if (profile && this.settings) this.settings.profile = profile;
  }
}

export const session = new Session();
onSignedOut(() => session.expire());

/** The other language of the page. */
export const otherLanguage = {
  get name() {
    return language.current === 'en' ? 'Deutsch' : 'English';
  },
  choose: () => language.set(language.current === 'en' ? 'de' : 'en'),
};
