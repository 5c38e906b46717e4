// Runs tasks one after the other in a worker, each with a deadline.

/** Time after which a task is abandoned and its worker terminated. */
const DEADLINE_MS = 1_000;
/** Grace period, because a busy page receives results late. */
const GRACE_MS = 50;
const START_TIMEOUT_MS = 20_000;

type Answer<T> = { value: T } | { error: string } | 'ready';

/** Handles tasks; called once in the worker. */
export function answer<Task, T>(work: (task: Task) => T) {
  const post = (message: Answer<T>) => postMessage(message);
  onmessage = ({ data }: MessageEvent<Task>) => {
    try {
      post({ value: work(data) });
    } catch (error) {
      post({ error: String(error) });
    }
  };
  post('ready');
}

export class TaskQueue<Task> {
  #worker: Promise<Worker> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(private create: () => Worker) {}

  /** Starts the worker before it is needed. */
  start() {
    this.#worker ??= this.#create();
    this.#worker.catch(() => (this.#worker = null));
    return this.#worker;
  }

  /** Returns the result of a task; throws if it failed or timed out. */
  run<T>(task: Task): Promise<T> {
    const result = this.#last.then(() => this.#run<T>(task));
    this.#last = result.catch(() => {});
    return result;
  }

  #create(): Promise<Worker> {
    const worker = this.create();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail('the worker does not start'), START_TIMEOUT_MS);
      const fail = (reason: string) => {
        clearTimeout(timer);
        worker.terminate();
        reject(new Error(reason));
      };
      worker.onerror = ({ message }) => fail(message);
      worker.onmessage = () => {
        clearTimeout(timer);
        resolve(worker);
      };
    });
  }

  async #run<T>(task: Task): Promise<T> {
    const worker = await this.start();
    return new Promise((resolve, reject) => {
      let timer = setTimeout(() => (timer = setTimeout(() => abandon('deadline exceeded'), GRACE_MS)), DEADLINE_MS);
      const abandon = (reason: string) => {
        clearTimeout(timer);
        worker.terminate();
        this.#worker = null;
        this.start();
        reject(new Error(reason));
      };
      worker.onerror = ({ message }) => abandon(message);
      worker.onmessage = ({ data }: MessageEvent<Exclude<Answer<T>, 'ready'>>) => {
        clearTimeout(timer);
        if ('value' in data) resolve(data.value);
        else reject(new Error(data.error));
      };
      worker.postMessage(task);
    });
  }
}
