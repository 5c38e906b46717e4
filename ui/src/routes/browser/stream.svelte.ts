import { takeTicket } from '../../lib/api';

// The frames of the active tab, as they come. The socket waits where no browser runs, and ends when it is closed or nobody sees the page.

const LONGEST_WAIT_MS = 10_000;

export class Frames {
  state = $state<'connecting' | 'open' | 'lost'>('connecting');
  /** How many frames came. */
  count = $state(0);
  width = $state(0);
  height = $state(0);

  /** Aborted when the socket is closed, also while it is being opened. */
  #connection: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = 500;
  #ended = false;
  #newest = 0;

  constructor(
    private readonly canvas: () => HTMLCanvasElement | undefined,
    private readonly onframe: () => void,
  ) {}

  start(): () => void {
    // Nothing is captured for a tab that nobody sees.
    const look = () => {
      if (document.hidden) this.#close();
      else if (!this.#connection) void this.#open();
    };
    document.addEventListener('visibilitychange', look);
    look();
    return () => {
      this.#ended = true;
      document.removeEventListener('visibilitychange', look);
      this.#close();
    };
  }

  #close() {
    clearTimeout(this.#timer);
    this.#connection?.abort();
    this.#connection = null;
    this.#wait = 500;
  }

  /** What was drawn belongs to a browser that is gone. */
  #clear() {
    this.count = this.width = this.height = 0;
  }

  #lost() {
    this.state = 'lost';
    this.#openLater();
  }

  #openLater() {
    this.#timer = setTimeout(() => void this.#open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
  }

  async #open() {
    const { signal } = (this.#connection = new AbortController());
    const ticket = await takeTicket().catch(() => null);
    if (signal.aborted) return;
    if (!ticket) return this.#lost();
    const socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/browser/stream?ticket=${encodeURIComponent(ticket)}`);
    signal.addEventListener('abort', () => socket.close(1000));
    socket.binaryType = 'blob';
    socket.onopen = () => {
      this.state = 'open';
      this.#wait = 500;
    };
    socket.onmessage = ({ data }: MessageEvent<Blob>) => void this.#draw(data);
    socket.onclose = ({ code }) => {
      if (signal.aborted) return;
      // 1000: the browser was closed; the next socket waits for the next one.
      if (code !== 1000) return this.#lost();
      this.#clear();
      this.#openLater();
    };
  }

  async #draw(jpeg: Blob) {
    const number = (this.#newest += 1);
    const picture = await createImageBitmap(jpeg).catch(() => null);
    const canvas = this.canvas();
    // One that took longer to decode than the next is old.
    if (!picture || !canvas || number < this.#newest || this.#ended) return picture?.close();
    if (canvas.width !== picture.width || canvas.height !== picture.height) [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext('2d')?.drawImage(picture, 0, 0);
    [this.width, this.height] = [picture.width, picture.height];
    this.count += 1;
    picture.close();
    this.onframe();
  }
}
