// Characters without a visible form: the rules of `crates/libs/base/src/visible.rs`, tested with the same examples
// (`crates/libs/base/tests/visible.json`).

const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}\p{Noncharacter_Code_Point}\u2800\u{1d159}]/gu;

/** Scripts in which a zero-width joiner or non-joiner selects the form of the neighbouring letters. */
const SCRIPTS_WITH_JOINERS =
  /^[\p{Script=Arab}\p{Script=Beng}\p{Script=Deva}\p{Script=Gujr}\p{Script=Guru}\p{Script=Knda}\p{Script=Khmr}\p{Script=Mlym}\p{Script=Mong}\p{Script=Mymr}\p{Script=Nkoo}\p{Script=Orya}\p{Script=Sinh}\p{Script=Syrc}\p{Script=Taml}\p{Script=Telu}]{2}$/u;

const codePoint = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`;

function rewrite(text: string, stays: (before: string, character: string, after: string) => boolean): string {
  return text.replace(HIDDEN, (character, at: number) => {
    const before = /.$/su.exec(text.slice(Math.max(0, at - 2), at))?.[0] ?? '';
    const after = /^./su.exec(text.slice(at + character.length, at + character.length + 2))?.[0] ?? '';
    const isLineBreak = character === '\n' || character === '\t' || (character === '\r' && after === '\n');
    return isLineBreak || stays(before, character, after) ? character : codePoint(character);
  });
}

/** For approvals, names, file names and identifiers: two texts that differ look different. */
export function visible(text: string): string {
  return rewrite(text, () => false);
}

/** For prose that is only displayed: joiners, variation selectors and soft hyphens stay where letters or emoji need them. */
export function visibleProse(text: string): string {
  return rewrite(text, belongsToText);
}

function belongsToText(before: string, character: string, after: string): boolean {
  switch (character) {
    case '\u00ad':
      return /^\p{Alphabetic}{2}$/u.test(before + after);
    case '\u200c':
    case '\u200d':
      return SCRIPTS_WITH_JOINERS.test(before + after) || (character === '\u200d' && joinsEmoji(before, after));
    case '\ufe0e':
    case '\ufe0f':
      return /^\p{Emoji}$/u.test(before);
    default:
      return /^\p{Variation_Selector}$/u.test(character) && /^\p{Unified_Ideograph}$/u.test(before);
  }
}

const joinsEmoji = (before: string, after: string) =>
  /^[\ufe0f\p{Extended_Pictographic}\p{Emoji_Modifier}]$/u.test(before) && /^\p{Extended_Pictographic}$/u.test(after);
