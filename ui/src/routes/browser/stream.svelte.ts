import { takeTicket } from '../../lib/api';

// Live frames of the active tab. The socket stays open while no browser runs, and is closed with the browser or while the page is hidden.

const MAX_RECONNECT_DELAY_MS = 10_000;

export class Frames {
  state = $state<'connecting' | 'open' | 'lost'>('connecting');
  /** Number of received frames. */
  count = $state(0);
  width = $state(0);
  height = $state(0);

  /** Aborted when the socket is closed, even during the handshake. */
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
    // A hidden page needs no frames.
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

  /** Clears the last frame of a closed browser. */
  #clear() {
    this.count = this.width = this.height = 0;
  }

  #lost() {
    this.state = 'lost';
    this.#openLater();
  }

  #openLater() {
    this.#timer = setTimeout(() => void this.#open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, MAX_RECONNECT_DELAY_MS);
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
      // 1000: the browser was closed; the next socket waits for it to start.
      if (code !== 1000) return this.#lost();
      this.#clear();
      this.#openLater();
    };
  }

  async #draw(jpeg: Blob) {
    const number = (this.#newest += 1);
    const picture = await createImageBitmap(jpeg).catch(() => null);
    const canvas = this.canvas();
    // Drops a frame that was decoded after a newer one.
    if (!picture || !canvas || number < this.#newest || this.#ended) return picture?.close();
    if (canvas.width !== picture.width || canvas.height !== picture.height) [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext('2d')?.drawImage(picture, 0, 0);
    [this.width, this.height] = [picture.width, picture.height];
    this.count += 1;
    picture.close();
    this.onframe();
  }
}
