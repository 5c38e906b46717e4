// Bundles the video muxing library into one script, which the crate `browser` embeds.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const file = 'muxer/mp4-muxer.js';
const of = (name) => readFileSync(`node_modules/mp4-muxer/${name}`, 'utf8');
const [{ output }] = await build({
  configFile: false,
  publicDir: false,
  logLevel: 'warn',
  build: {
    target: 'es2022',
    write: false,
    lib: { entry: fileURLToPath(import.meta.resolve('mp4-muxer')), name: 'Mp4Muxer', formats: ['iife'] },
  },
});
const script = `/*! mp4-muxer ${JSON.parse(of('package.json')).version}\n\n${of('LICENSE')}*/\n${output[0].code}`;
// A newer file would rebuild the crate.
if (!existsSync(file) || readFileSync(file, 'utf8') !== script) {
  mkdirSync('muxer', { recursive: true });
  writeFileSync(file, script);
}
