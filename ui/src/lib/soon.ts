/** Makes calls rarer: `call` runs a moment after it was asked for, once for everything that asks meanwhile. */
export function soon(call: () => void, ms = 400): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      call();
    }, ms);
  };
}
