export interface Line {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

/** Tables larger than this are not worth their memory: what differs is then shown as replaced whole. */
const MOST_CELLS = 4_000_000;

/** What makes one text the other, line by line, by their longest common subsequence. */
export function differences(before: string, after: string): Line[] {
  const a = before === '' ? [] : before.split('\n');
  const b = after === '' ? [] : after.split('\n');
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (text: string): Line => ({ kind: 'same', text });
  return [
    ...a.slice(0, start).map(same),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ];
}

function middle(a: string[], b: string[]): Line[] {
  const removed = (text: string): Line => ({ kind: 'removed', text });
  const added = (text: string): Line => ({ kind: 'added', text });
  const width = b.length + 1;
  if (!a.length || !b.length || (a.length + 1) * width > MOST_CELLS) return [...a.map(removed), ...b.map(added)];
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1]! + 1 : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i]! });
      [i, j] = [i + 1, j + 1];
    } else if (i < a.length && (j === b.length || longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!)) {
      lines.push(removed(a[i]!));
      i += 1;
    } else {
      lines.push(added(b[j]!));
      j += 1;
    }
  }
  return lines;
}
