/** A list and its next page, each entry once: what was added meanwhile moves entries from one page to the next. */
export function joined<T>(before: T[], page: T[], key: (entry: T) => unknown): T[] {
  const known = new Set(before.map(key));
  return [...before, ...page.filter((entry) => !known.has(key(entry)))];
}
