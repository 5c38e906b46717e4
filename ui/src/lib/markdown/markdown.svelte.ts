import { untrack } from 'svelte';
import { plainBlock, type Block, type Rendered } from './blocks';
import { withoutOverrides } from './dom';
import type { MarkdownTask } from './markdown.worker';
import { TaskQueue } from './task';

/** Length of the text slices sent to the worker. */
const SLICE_LENGTH = 32_000;
/** Time after which unparsed text is shown unformatted. */
const PARSE_TIMEOUT_MS = 200;
/** Maximum number of failed blocks before the rest of a text is shown unformatted. */
const MAX_FAILURES = 5;

const queue = new TaskQueue<MarkdownTask>(() => new Worker(new URL('./markdown.worker.ts', import.meta.url), { type: 'module' }));
void queue.start().catch(() => {});

/** Blocks of a text that may grow at its end. Settled blocks are parsed once. */
export class MarkdownBlocks {
  blocks = $state.raw<Block[]>([]);
  isReading = $state(false);
  #settled: Block[] = [];
  /** Source of the settled blocks. */
  #prefix = '';
  #wanted = '';
  #read: string | null = null;
  #isClosed = false;
  /** Parsing took too long; the rest is shown unformatted. */
  #isLate = false;
  #failures = 0;

  update(text: string) {
    // Line ends are normalized as in the lexer, so that block lengths apply to this text.
    this.#wanted = withoutOverrides(text).replace(/\r\n|\r/g, '\n');
    if (this.#isLate) this.#showPlain();
    void this.#run();
  }

  close() {
    this.#isClosed = true;
  }

  async #run() {
    if (untrack(() => this.isReading)) return;
    this.isReading = true;
    while (!this.#isClosed && this.#read !== this.#wanted) await this.#readAll(this.#wanted);
    this.isReading = false;
  }

  #showPlain() {
    const settled = this.#wanted.startsWith(this.#prefix) ? this.#settled : [];
    const rest = settled === this.#settled ? this.#wanted.slice(this.#prefix.length) : this.#wanted;
    this.blocks = rest ? [...settled, plainBlock(rest)] : settled;
  }

  async #readAll(text: string) {
    if (!text.startsWith(this.#prefix)) [this.#settled, this.#prefix, this.#failures] = [[], '', 0];
    for (let length = SLICE_LENGTH; !this.#isClosed; ) {
      const rest = text.slice(this.#prefix.length);
      const part = rest.slice(0, length);
      const timer = setTimeout(() => {
        this.#isLate = true;
        this.#showPlain();
      }, PARSE_TIMEOUT_MS);
      const rendered = await this.#readPart(part);
      clearTimeout(timer);
      // A block longer than the slice is parsed with the following text.
      if (part.length < rest.length && rendered.settledBlocks === 0) length *= 2;
      else this.#settled = [...this.#settled, ...rendered.blocks.slice(0, rendered.settledBlocks)];
      this.#prefix += part.slice(0, rendered.settledLength);
      if (part.length === rest.length) {
        this.#isLate = false;
        this.#read = text;
        this.blocks = [...this.#settled, ...rendered.blocks.slice(rendered.settledBlocks)];
        return;
      }
      if (this.#isLate) this.#showPlain();
      else this.blocks = this.#settled;
    }
  }

  /** Parses a part; on failure block by block, so that a bad block does not affect the others. */
  async #readPart(part: string): Promise<Rendered> {
    if (this.#failures >= MAX_FAILURES) return plainPart(part);
    try {
      return await queue.run<Rendered>({ render: part });
    } catch {
      const lengths = await queue.run<number[]>({ outline: part }).catch(() => [part.length]);
      if (lengths.length < 2) {
        this.#failures += 1;
        return plainPart(part);
      }
      return this.#readBlocks(part, lengths);
    }
  }

  async #readBlocks(part: string, lengths: number[]): Promise<Rendered> {
    const rendered: Rendered = { blocks: [], settledBlocks: 0, settledLength: 0 };
    let end = 0;
    for (const [i, length] of lengths.entries()) {
      const text = part.slice(end, (end += length));
      const blocks = this.#failures < MAX_FAILURES ? await queue.run<Rendered>({ render: text }).then((found) => found.blocks, () => null) : null;
      if (!blocks) this.#failures += 1;
      rendered.blocks.push(...(blocks ?? [plainBlock(text)]));
      // Failed blocks are not retried when the text grows.
      if (!blocks || i < lengths.length - 2) [rendered.settledBlocks, rendered.settledLength] = [rendered.blocks.length, end];
    }
    return rendered;
  }
}

const plainPart = (text: string): Rendered => ({ blocks: [plainBlock(text)], settledBlocks: 1, settledLength: text.length });
