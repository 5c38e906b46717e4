import type { Schemas } from '../../lib/api';
import { visible, visibleProse } from '../../lib/format';

export type Episode = Schemas['EpisodeView'];
export type Found = Schemas['SearchResult'];

export interface Part {
  text: string;
  marked: boolean;
}

const CHARACTER_REFERENCES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", '#39': "'", '#x27': "'" };

/** Splits a highlight into text pieces; the HTML escaped by the API is decoded and never rendered as HTML. */
export function parts(highlight: string): Part[] {
  return highlight
    .split(/(<mark>[^<]*<\/mark>)/)
    .filter(Boolean)
    .map((piece) => {
      const inner = /^<mark>(.*)<\/mark>$/s.exec(piece)?.[1];
      const text = (inner ?? piece).replace(/&(amp|lt|gt|quot|apos|#39|#x27);/g, (_, sign: string) => CHARACTER_REFERENCES[sign]!);
      return { text: visibleProse(text), marked: inner !== undefined };
    });
}

export interface Reasons {
  words: string[];
  entities: string[];
  topics: string[];
}

/** Why an episode matched. Without any reason, its meaning is similar. */
export function reasons({ episode, highlights }: Found, query: string): Reasons {
  const words = new Map<string, string>();
  for (const { text, marked } of highlights.flatMap(parts)) if (marked && !words.has(text.toLowerCase())) words.set(text.toLowerCase(), text);
  const asked = ` ${query.toLowerCase()} `;
  const isAsked = (name: string) => asked.includes(name.toLowerCase());
  return {
    words: [...words.values()].slice(0, 6),
    entities: episode.entities.filter(({ name }) => isAsked(name)).map(({ name }) => visible(name)),
    topics: episode.topics.filter(isAsked).map(visible),
  };
}
