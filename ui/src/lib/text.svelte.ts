// Translations. Each folder has its own texts in both languages, loaded with its code.

export type Language = 'en' | 'de';
type Words = Record<string, string>;
type Values = Record<string, string | number>;

const STORAGE_KEY = 'language';

function first(): Language {
  const kept = localStorage.getItem(STORAGE_KEY) ?? navigator.language;
  return kept.startsWith('de') ? 'de' : 'en';
}

class LanguageState {
  current = $state<Language>(first());

  set(language: Language) {
    this.current = language;
    localStorage.setItem(STORAGE_KEY, language);
    document.documentElement.lang = language;
  }
}

export const language = new LanguageState();

function fill(text: string, values?: Values): string {
  return values ? text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole)) : text;
}

type Base<K> = K extends `${infer B}_one` ? B : never;

/** `texts({ en: { greeting: 'Hello {name}' }, de: { … } })`; a key that is missing in one language does not compile. */
export function texts<T extends Words>(words: { en: T; de: { [K in keyof T]: string } }) {
  const t = (key: keyof T, values?: Values) => fill(words[language.current][key], values);
  /** Selects `key_one` or `key_other` and fills in `{n}`. */
  const count = (key: Base<keyof T>, n: number, values?: Values) => {
    const form = new Intl.PluralRules(language.current).select(n) === 'one' ? 'one' : 'other';
    return t(`${key}_${form}` as keyof T, { n: n.toLocaleString(language.current), ...values });
  };
  return Object.assign(t, { n: count });
}
