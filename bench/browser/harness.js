// In each page of the suite: `$` and `$$` look where the task's page is, `report` says what it came to.
window.root = document;
const $ = (selector) => root.querySelector(selector);
const $$ = (selector) => [...root.querySelectorAll(selector)];
const report = (said) => top.postMessage(String(said), '*');
if (top === self) addEventListener('message', (event) => { document.title = event.data; });
