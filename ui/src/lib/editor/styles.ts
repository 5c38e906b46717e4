// The Content-Security-Policy blocks `<style>` elements inserted by scripts, as CodeMirror does. Constructed style sheets
// are allowed, so its style modules are mounted as such.

import { StyleModule } from 'style-mod';

const sheets = new Map<StyleModule, CSSStyleSheet>();

function sheetOf(module: StyleModule): CSSStyleSheet {
  const known = sheets.get(module);
  if (known) return known;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(module.getRules());
  sheets.set(module, sheet);
  return sheet;
}

/** Makes all editors use constructed style sheets. Modules are in ascending precedence. */
export function useConstructedSheets() {
  StyleModule.mount = (root, modules) => {
    const mounted = root.adoptedStyleSheets;
    root.adoptedStyleSheets = [...new Set([...mounted, ...[modules].flat().map(sheetOf)])];
  };
}
