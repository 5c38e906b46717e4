/** Appends the next page to a list without duplicates, which occur when new entries shift the pages. */
export function joined<T>(before: T[], page: T[], key: (entry: T) => unknown): T[] {
  const known = new Set(before.map(key));
  return [...before, ...page.filter((entry) => !known.has(key(entry)))];
}
