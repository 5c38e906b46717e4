import { svelte } from '@sveltejs/vite-plugin-svelte';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig } from 'vite';

// `npm run dev` talks to this daemon; with a key it is signed in without a cookie.
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
    // The page's Content-Security-Policy allows files only: nothing may be written into the document.
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
