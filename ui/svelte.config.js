import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

// The page's Content-Security-Policy refuses style attributes in markup, which some components of bits-ui have.
const withoutStyleAttributes = {
  name: 'without-style-attributes',
  markup: ({ content, filename }) => (filename?.includes('/bits-ui/') ? { code: content.replaceAll('style="display: contents;"', 'class="contents"') } : undefined),
};

export default {
  preprocess: [vitePreprocess(), withoutStyleAttributes],
  compilerOptions: { runes: ({ filename }) => (filename.includes('node_modules') ? undefined : true) },
};
