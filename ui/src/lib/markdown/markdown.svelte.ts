import { untrack } from 'svelte';
import { plainBlock, type Block, type Rendered } from './blocks';
import { withoutOverrides } from './dom';
import type { MarkdownTask } from './markdown.worker';
import { TaskQueue } from './task';

/** Length of text that the worker is given at once. */
const SLICE_LENGTH = 32_000;
/** Time after which text that is not read yet is shown as it was written. */
const PATIENCE_MS = 200;
/** Number of blocks of a text that may fail before the rest of it is shown as it was written. */
const MAX_FAILURES = 5;

const queue = new TaskQueue<MarkdownTask>(() => new Worker(new URL('./markdown.worker.ts', import.meta.url), { type: 'module' }));
void queue.start().catch(() => {});

/** The blocks of a text that may grow at its end. Those that cannot change any more are read once. */
export class MarkdownBlocks {
  blocks = $state.raw<Block[]>([]);
  isReading = $state(false);
  #settled: Block[] = [];
  /** Source of the settled blocks. */
  #prefix = '';
  #wanted = '';
  #read: string | null = null;
  #isClosed = false;
  /** Reading takes so long that the rest is shown as it was written. */
  #isLate = false;
  #failures = 0;

  update(text: string) {
    // Line ends are what the lexer takes them for, so that the lengths of blocks are lengths of this text.
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
      }, PATIENCE_MS);
      const rendered = await this.#readPart(part);
      clearTimeout(timer);
      // One block that is longer than the slice is read with what follows.
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

  /** Reads a part; where that fails, block by block, so that one bad block leaves the others as they are. */
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
      // What failed is not tried again when the text grows.
      if (!blocks || i < lengths.length - 2) [rendered.settledBlocks, rendered.settledLength] = [rendered.blocks.length, end];
    }
    return rendered;
  }
}

const plainPart = (text: string): Rendered => ({ blocks: [plainBlock(text)], settledBlocks: 1, settledLength: text.length });
