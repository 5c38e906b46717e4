// The page's Content-Security-Policy refuses `<style>` elements that scripts insert, which is how CodeMirror styles a
// document. Constructed style sheets are allowed, so its modules are mounted as these.

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

/** Makes every editor of the page use constructed style sheets. Modules come in ascending precedence. */
export function useConstructedSheets() {
  StyleModule.mount = (root, modules) => {
    const mounted = root.adoptedStyleSheets;
    root.adoptedStyleSheets = [...new Set([...mounted, ...[modules].flat().map(sheetOf)])];
  };
}
