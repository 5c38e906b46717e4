import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

// The Content-Security-Policy blocks style attributes in markup, which some bits-ui components have.
const withoutStyleAttributes = {
  name: 'without-style-attributes',
  markup: ({ content, filename }) => (filename?.includes('/bits-ui/') ? { code: content.replaceAll('style="display: contents;"', 'class="contents"') } : undefined),
};

export default {
  preprocess: [vitePreprocess(), withoutStyleAttributes],
  compilerOptions: { runes: ({ filename }) => (filename.includes('node_modules') ? undefined : true) },
};
