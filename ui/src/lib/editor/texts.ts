import { texts } from '../text.svelte';

/** Translations of CodeMirror's phrases. The keys are its own English phrases. */
export const t = texts({
  en: {
    Find: 'Find',
    Replace: 'Replace',
    next: 'Next',
    previous: 'Previous',
    'match case': 'Match case',
    regexp: 'Regular expression',
    'by word': 'Whole words',
    replace: 'Replace',
    'replace all': 'Replace all',
    close: 'Close',
    'current match': 'Current match',
    'on line': 'on line',
    'replaced match on line $': 'Replaced the match on line $',
    'replaced $ matches': 'Replaced $ matches',
    'Go to line': 'Go to line',
    go: 'Go',
    'Control character': 'Control character',
    'Selection deleted': 'Selection deleted',
  },
  de: {
    Find: 'Suchen',
    Replace: 'Ersetzen durch',
    next: 'Nächster',
    previous: 'Vorheriger',
    'match case': 'Groß- und Kleinschreibung',
    regexp: 'Regulärer Ausdruck',
    'by word': 'Ganze Wörter',
    replace: 'Ersetzen',
    'replace all': 'Alle ersetzen',
    close: 'Schließen',
    'current match': 'Aktueller Treffer',
    'on line': 'in Zeile',
    'replaced match on line $': 'Treffer in Zeile $ ersetzt',
    'replaced $ matches': '$ Treffer ersetzt',
    'Go to line': 'Gehe zu Zeile',
    go: 'Springen',
    'Control character': 'Steuerzeichen',
    'Selection deleted': 'Auswahl gelöscht',
  },
});

const PHRASES = ['Find', 'Replace', 'next', 'previous', 'match case', 'regexp', 'by word', 'replace', 'replace all', 'close', 'current match', 'on line', 'replaced match on line $', 'replaced $ matches', 'Go to line', 'go', 'Control character', 'Selection deleted'] as const;

export const phrases = () => Object.fromEntries(PHRASES.map((phrase) => [phrase, t(phrase)]));
