// Fails if the page initially loads more than 120 kB of compressed JavaScript.
import { readFileSync, rmSync } from 'node:fs';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const LIMIT = 120_000;
const manifest = JSON.parse(readFileSync('dist/.vite/manifest.json', 'utf8'));
const first = new Set();
const add = (name) => {
  if (first.has(name)) return;
  first.add(name);
  (manifest[name].imports ?? []).forEach(add);
};
add('index.html');
// The chat view opens first, so it is included.
Object.keys(manifest).filter((name) => name.endsWith('routes/chat/Chat.svelte')).forEach(add);
const files = [...first].map((name) => readFileSync(`dist/${manifest[name].file}`));
const sum = (pack) => files.reduce((bytes, file) => bytes + pack(file).length, 0);
const [gzip, brotli] = [sum(gzipSync), sum(brotliCompressSync)];
console.log(`first load: ${(gzip / 1000).toFixed(1)} kB of JavaScript with gzip, ${(brotli / 1000).toFixed(1)} kB with brotli`);
if (gzip > LIMIT) {
  console.error(`The initial load exceeds ${LIMIT / 1000} kB of compressed JavaScript.`);
  process.exitCode = 1;
}
rmSync('dist/.vite', { recursive: true });
