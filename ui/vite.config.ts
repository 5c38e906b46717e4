import { svelte } from '@sveltejs/vite-plugin-svelte';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig } from 'vite';

// Daemon used by `npm run dev`; with a key, requests are authenticated without a session.
const daemon = process.env.AGENTD_URL ?? 'http://127.0.0.1:7878';
const key = process.env.AGENTD_KEY;
const proxy = {
  '^/(api|health|v1|mcp)(/|$)': {
    target: daemon,
    ws: true,
    ...(key && { headers: { Authorization: `Bearer ${key}` } }),
  },
};

export default defineConfig({
  plugins: [svelte(), tailwindcss()],
  build: {
    target: 'es2022',
    // The Content-Security-Policy allows only files, so nothing may be inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  worker: { format: 'es' },
  server: { proxy },
  preview: { proxy },
});
