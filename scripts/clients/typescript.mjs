// The official TypeScript clients: `typescript.mjs stdio|http 1|2|2-legacy TARGET`, run where they are installed.
import { existsSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [transport, line, target] = process.argv.slice(2);
const require = createRequire(process.cwd() + '/');
const load = (name) => import(pathToFileURL(require.resolve(name)));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const assert = (holds, message) => { if (!holds) throw new Error(typeof message === 'string' ? message : JSON.stringify(message)); };

const asked = [], messages = [];
const elicit = async (request) => {
  if (request.params.url) {
    asked.push(request.params.url);
    return { action: 'accept' };
  }
  asked.push(request.params.message);
  const content = {};
  for (const [name, shape] of Object.entries(request.params.requestedSchema?.properties ?? {})) content[name] = shape.type === 'boolean' ? true : 'yes';
  return { action: 'accept', content };
};
const sample = async () => ({ role: 'assistant', model: 'test', content: { type: 'text', text: 'sampled' } });
const log = (notification) => { messages.push(notification.params); };
const info = { name: 'try_clients', version: '1' };
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {} };
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

// A client that is connected; it starts its server itself on stdio.
const open = async () => {
  let client, stdio, http;
  if (line === '1') {
    const types = await load('@modelcontextprotocol/sdk/types.js');
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    ({ StdioClientTransport: stdio } = await load('@modelcontextprotocol/sdk/client/stdio.js'));
    ({ StreamableHTTPClientTransport: http } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js'));
    client = new Client(info, { capabilities });
    client.setRequestHandler(types.ElicitRequestSchema, elicit);
    client.setRequestHandler(types.CreateMessageRequestSchema, sample);
    client.setNotificationHandler(types.LoggingMessageNotificationSchema, log);
  } else {
    const sdk = await load('@modelcontextprotocol/client');
    ({ StdioClientTransport: stdio } = await load('@modelcontextprotocol/client/stdio'));
    http = sdk.StreamableHTTPClientTransport;
    const mode = line === '2' ? 'auto' : 'legacy';
    client = new sdk.Client(info, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', elicit);
    client.setRequestHandler('sampling/createMessage', sample);
    client.setNotificationHandler('notifications/message', log);
  }
  if (transport === 'stdio') {
    const [command, folder] = target.split(' ');
    const pipes = new stdio({ command, args: ['serve'], cwd: folder, env: { ...process.env, HOME: `${folder}/home` } });
    // The clients tell a transport what was agreed on, if it wants to know.
    pipes.setProtocolVersion ??= (version) => { pipes.protocolVersion = version; };
    await client.connect(pipes);
  } else {
    await client.connect(new http(new URL(target)));
  }
  return client;
};
let client = await open();
const revision = client.getNegotiatedProtocolVersion?.() ?? client.transport.protocolVersion;

let meta;
const run = async (command, options) => {
  const params = { name: 'run', arguments: { command }, ...(meta && { _meta: meta }) };
  const result = line === '1' ? await client.callTool(params, undefined, options) : await client.callTool(params, options);
  const text = result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
  return { text, failed: result.isError === true, kinds: result.content.map((block) => block.type) };
};

const checks = {
  async run() { assert((await run('40 + 2')).text === '42', 'not 42'); },
  async error() { const { text, failed } = await run('1 / 0'); assert(failed && text.includes('ZeroDivisionError'), text); },
  async image() {
    for (const server of ['up', 'up_new']) assert((await run(`${server}.image()`)).kinds.includes('image'), server);
  },
  async progress() {
    for (const server of ['up', 'up_new']) {
      const seen = [];
      await run(`${server}.steps()`, { onprogress: (progress) => seen.push(progress.progress) });
      assert(seen.length > 0 && seen.every((value, at) => at === 0 || value > seen[at - 1]), [server, seen]);
    }
  },
  async logging() {
    if (revision < '2026-07-28') await client.setLoggingLevel('debug');
    else meta = { [LOG_LEVEL]: 'debug' };
    messages.length = 0;
    await run('1');
    for (let at = 0; at < 50 && messages.length === 0; at++) await pause(100);
    assert(messages.length > 0, 'no message');
  },
  async resources() { assert((await client.readResource({ uri: 'ot://tools' })).contents[0].text.includes('file.read'), 'no file.read'); },
  async prompts() {
    const prompt = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
    assert(prompt.messages[0].content.text.includes('Ada'), prompt);
  },
  async ask() {
    asked.length = 0;
    const { text } = await run("file.write('asked.txt', 'x'); 'written'");
    assert(text === 'written' && asked.some((question) => question.includes('file.write')), [text, asked]);
  },
  async elicitation() {
    for (const server of ['up', 'up_new']) {
      asked.length = 0;
      const { text, failed } = await run(`${server}.ask()`);
      assert(!failed && asked.length > 0 && text.includes('answer'), [server, text]);
      const opened = await run(`${server}.open()`);
      assert(!opened.failed && asked.includes('https://example.org/in') && opened.text.includes('accept'), [server, opened.text]);
    }
  },
  async sampling() {
    for (const server of ['up', 'up_new']) {
      const { text } = await run(`${server}.sample()`);
      assert(text.includes('sampled'), [server, text]);
    }
  },
  async task() {
    const tasks = client.experimental?.tasks;
    if (!tasks?.callToolStream) return 'left out: it has no tasks';
    const params = { name: 'run', arguments: { command: 'up.steps()' } };
    let last;
    for await (const message of tasks.callToolStream(params, undefined, { task: { ttl: 60000 } })) last = message;
    assert(last.type === 'result' && last.result.content[0].text.includes('done'), last);
  },
  async cancel() {
    const ticks = async () => (await run('up.ticks()')).text;
    const controller = new AbortController();
    const before = await ticks();
    const slow = run('while True: up.tick()', { signal: controller.signal }).catch(() => {});
    while (await ticks() === before) await pause(50);
    controller.abort('enough');
    await slow;
    // It makes no more calls.
    for (let last, since = 0; since < 5; await pause(100)) {
      const now = await ticks();
      since = now === last ? since + 1 : 0;
      last = now;
    }
  },
  async idle() { await pause(2000); assert((await run("'awake'")).text === 'awake', 'asleep'); },
  async restart() {
    const place = process.env.TRY_CLIENTS_RESTART;
    if (place) {
      writeFileSync(`${place}/restart`, '');
      while (!existsSync(`${place}/restarted`)) await pause(50);
    } else {
      // A client on stdio starts its server itself: it does so again.
      await client.close();
      client = await open();
    }
    assert((await run("'back'")).text === 'back', 'not back');
  },
};
const results = {};
for (const [name, check] of Object.entries(checks)) {
  try {
    const late = pause(40000).then(() => { throw new Error('no answer'); });
    results[name] = (await Promise.race([check(), late])) ?? 'ok';
  } catch (error) {
    results[name] = `FAILED: ${error.message ?? error}`.slice(0, 300);
  }
}
process.stdout.write(JSON.stringify({ revision, checks: results }));
process.exit(0);
