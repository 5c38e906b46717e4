// Included in each page of the suite: `$` and `$$` query the task's page, `report` reports the result.
window.root = document;
const $ = (selector) => root.querySelector(selector);
const $$ = (selector) => [...root.querySelectorAll(selector)];
const report = (said) => top.postMessage(String(said), '*');
if (top === self) addEventListener('message', (event) => { document.title = event.data; });
