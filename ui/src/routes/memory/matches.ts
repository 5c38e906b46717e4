import type { Schemas } from '../../lib/api';
import { visible, visibleProse } from '../../lib/format';

export type Episode = Schemas['EpisodeView'];
export type Found = Schemas['SearchResult'];

export interface Part {
  text: string;
  marked: boolean;
}

const SIGNS: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", '#39': "'", '#x27': "'" };

/** A highlight as pieces of text: what the API escaped for HTML is text again, and never becomes HTML here. */
export function parts(highlight: string): Part[] {
  return highlight
    .split(/(<mark>[^<]*<\/mark>)/)
    .filter(Boolean)
    .map((piece) => {
      const inner = /^<mark>(.*)<\/mark>$/s.exec(piece)?.[1];
      const text = (inner ?? piece).replace(/&(amp|lt|gt|quot|apos|#39|#x27);/g, (_, sign: string) => SIGNS[sign]!);
      return { text: visibleProse(text), marked: inner !== undefined };
    });
}

export interface Reasons {
  words: string[];
  entities: string[];
  topics: string[];
}

/** Why an episode was found, as far as its answer shows it. Nothing at all: its meaning is near. */
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
