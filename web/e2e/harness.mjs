// A real server and a real browser for the tests of the page.
//
//   ONETOOL_BIN                     the binary [../target/debug/onetool]
//   ONETOOL_WEB_DIST=1              show the page from dist/ instead of the one in the binary, while working on it
//   ONETOOL_SKIP_BROWSER_TESTS=1    leave the tests out where no browser can be had
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, '..');
const binary = process.env.ONETOOL_BIN ?? join(web, '../target/debug/onetool');
const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'];

export const skip = process.env.ONETOOL_SKIP_BROWSER_TESTS ? 'ONETOOL_SKIP_BROWSER_TESTS is set' : false;

/** A project in a folder of its own, served over HTTP. */
export class Server {
  static async start({ config = '', files = {}, args = ['serve', '--http', '127.0.0.1:0'], env = {}, before = () => {} } = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'onetool-page-'));
    const all = { '.onetool/onetool.yaml': `version: 1\n${config}`, '.onetool/tools/demo/demo_tools.py': readFileSync(join(here, 'fixtures/demo_tools.py'), 'utf8'), ...files };
    for (const [name, text] of Object.entries(all)) {
      const path = join(folder, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
    mkdirSync(join(folder, 'home'), { recursive: true });
    before(folder);
    const child = spawn(binary, args, { cwd: folder, env: { ...process.env, HOME: join(folder, 'home'), BROWSER: 'none', ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
    const server = new Server();
    Object.assign(server, { folder, child, said: '' });
    server.base = await new Promise((resolve, reject) => {
      child.stderr.setEncoding('utf8').on('data', (text) => {
        server.said += text;
        const found = /listening at (http:\/\/\S+)\n/.exec(server.said)?.[1];
        // What follows the address comes with it or right after.
        if (found && (args[0] !== 'ui' || /^open \S+\n/m.test(server.said))) resolve(found);
      });
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${server.said}`)));
      child.once('error', reject);
    });
    return server;
  }

  async json(method, path, body, headers = {}) {
    const response = await fetch(`${this.base}/${path}`, { method, headers: { ...(body ? { 'Content-Type': 'application/json' } : {}), ...headers }, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : null };
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A browser with one page; whatever it complains about fails the test that closes it. */
export class Browser {
  static async open(server, { dark = false, width = 1280, height = 800, locale = 'en-US', at = '#/tools' } = {}) {
    const executablePath = process.env.CHROMIUM ?? browsers.find((path) => existsSync(path));
    if (!executablePath) throw new Error('no Chromium is installed: run scripts/test.sh, which installs it, or set ONETOOL_SKIP_BROWSER_TESTS=1');
    const self = new Browser();
    self.complaints = [];
    self.requests = [];
    self.browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    const context = await self.browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', locale, permissions: ['clipboard-read', 'clipboard-write'] });
    self.page = await context.newPage();
    self.page.setDefaultTimeout(60_000);
    self.page.on('console', (message) => {
      // A refused request is what some tests are about; the page shows it.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) self.complaints.push(message.text());
    });
    self.page.on('pageerror', (error) => self.complaints.push(String(error.stack)));
    self.page.on('dialog', (dialog) => { self.complaints.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
    self.page.on('requestfailed', (request) => { self.failed = `${request.url()}: ${request.failure()?.errorText}`; });
    self.page.on('request', (request) => self.requests.push(request.url()));
    if (process.env.ONETOOL_WEB_DIST) await fromDist(self.page, server.base);
    await self.page.goto(`${server.base}/${at}`);
    return self;
  }

  async go(place) {
    await this.page.evaluate((hash) => { location.hash = hash; }, place);
  }

  /** Goes to a place and waits until all of it is there. */
  async show(place) {
    await this.go(place);
    await this.settled(decodeURIComponent(place.replace(/^#\//, '').replace(/\?.*/, '')));
  }

  /** Waits until the page follows the server, and nothing is being fetched. */
  async settled(place) {
    await this.page.waitForFunction((place) => {
      const main = document.getElementById('main');
      if (!main || main.dataset.live !== 'open' || document.querySelector('.loading')) return false;
      if (place !== undefined && main.dataset.place.replace(/\/$/, '') !== place) return false;
      const editor = document.querySelector('.editor-host');
      return (document.documentElement.dataset.loads ?? '0') === '0' && (editor === null || editor.dataset.ready === 'true');
    }, place);
  }

  async close(server) {
    await this.browser.close();
    const foreign = this.requests.filter((url) => !url.startsWith(server.base) && !url.startsWith('data:') && !url.startsWith('blob:'));
    if (foreign.length > 0) throw new Error(`the page asked elsewhere: ${foreign}`);
    if (this.complaints.length > 0) throw new Error(`the page complained: ${this.complaints.join('\n')}`);
  }
}

async function fromDist(page, base) {
  const read = (name) => readFileSync(join(web, 'dist', name), 'utf8');
  const { policy } = JSON.parse(read('manifest.json'));
  await page.route(`${base}/`, (route) => route.fulfill({ body: read('index.html'), headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy } }));
  await page.route('**/assets/*', (route) =>
    route.fulfill({ body: read(`${/(\w+)-\w+\.js$/.exec(route.request().url())[1]}.js`), headers: { 'content-type': 'text/javascript; charset=utf-8' } }));
}

/** Asks again until it is as wanted. */
export async function until(ask, isWanted) {
  const end = Date.now() + 120_000;
  for (;;) {
    const answer = await ask();
    if (isWanted(answer)) return answer;
    if (Date.now() > end) throw new Error(`still ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs a test with a server and a browser, and ends both. */
export async function withPage(options, work) {
  const server = await Server.start(options.server ?? {});
  try {
    const browser = await Browser.open(server, options.browser ?? {});
    try {
      await work({ server, browser, page: browser.page });
    } catch (error) {
      if (browser.failed) console.error(browser.failed);
      await browser.page.screenshot({ path: join(tmpdir(), `onetool-page-failure-${process.pid}-${Date.now()}.png`) }).catch(() => undefined);
      await browser.browser.close();
      throw error;
    }
    await browser.close(server);
  } finally {
    await server.stop();
  }
}

/** The configuration lines for MCP servers of the fixtures. */
export function upstream(...kinds) {
  const lines = kinds.map((kind) => `  ${kind === 'hostile' ? 'odd' : kind}:\n    command: ${JSON.stringify(process.execPath)}\n    args: [${JSON.stringify(join(here, 'fixtures/upstream.mjs'))}, ${kind}]\n`);
  return `servers:\n${lines.join('')}`;
}
