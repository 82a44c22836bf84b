// Builds the page into dist/: one HTML document with its script and style inside, plus three files that are loaded when
// they are needed (the code editor, the screen of bundles and the JSON worker), each also compressed. Same sources and same lock file give the same bytes.
//
//   node build.mjs            write dist/
//   node build.mjs --check    build into memory, compare with dist/, and check sizes and forbidden constructs
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('.', import.meta.url));
const dist = join(root, 'dist');
const LIMITS = { document: 70_000, editor: 160_000 };
/** What the file of bundles has for itself; whatever else it imports is the document's. */
const BUNDLES = /^src\/(?:bundles\/|form\/(?:templates|sample))/;

const options = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  target: ['es2022'],
  charset: 'utf8',
  legalComments: 'none',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
};

async function bundle(entry, extra = {}) {
  const result = await build({ ...options, entryPoints: [entry], outdir: 'out', ...extra });
  return result.outputFiles[0].text;
}

/** Resolves what a lazy file shares with the document to what the document has loaded, and lists it. */
function shared(found) {
  return {
    name: 'shared',
    setup(builder) {
      builder.onResolve({ filter: /./ }, async ({ path, kind, resolveDir, pluginData }) => {
        if (kind === 'entry-point' || pluginData === 'shared') return undefined;
        const { path: full } = await builder.resolve(path, { kind, resolveDir, pluginData: 'shared' });
        const name = full.slice(root.length);
        if (BUNDLES.test(name)) return undefined;
        const key = path.startsWith('.') ? `./${name}` : path;
        found.add(key);
        return { path: key, namespace: 'shared' };
      });
      builder.onLoad({ filter: /./, namespace: 'shared' }, ({ path }) => ({ contents: `module.exports = globalThis.onetool[${JSON.stringify(path)}]` }));
    },
  };
}

/** Gives lazy files what they share with the document. */
function sharing(keys) {
  const contents = [...keys].sort().map((key, index) => `import * as m${index} from ${JSON.stringify(key)};`).join('\n')
    + `\nglobalThis.onetool = {${[...keys].sort().map((key, index) => `${JSON.stringify(key)}: m${index}`).join(', ')}};`;
  return {
    name: 'sharing',
    setup(builder) {
      builder.onResolve({ filter: /^shared:$/ }, () => ({ path: 'shared', namespace: 'sharing' }));
      builder.onLoad({ filter: /./, namespace: 'sharing' }, () => ({ contents, resolveDir: root }));
    },
  };
}

const sha256 = (text, encoding) => createHash('sha256').update(text).digest(encoding);
const hashed = (name, text) => `${name}-${sha256(text, 'hex').slice(0, 12)}.js`;

/** All files of dist/, by name. */
async function files() {
  const keys = new Set();
  const [editor, bundles, worker, style] = await Promise.all([
    bundle('src/editor/editor.ts'),
    bundle('src/bundles/screen.tsx', { plugins: [shared(keys)] }),
    bundle('src/worker.ts', { format: 'iife' }),
    bundle('src/style.css'),
  ]);
  const editorName = hashed('editor', editor);
  const bundlesName = hashed('bundles', bundles);
  const workerName = hashed('worker', worker);
  const script = await bundle('src/main.tsx', {
    plugins: [sharing(keys)],
    define: { EDITOR_FILE: JSON.stringify(`./assets/${editorName}`), BUNDLES_FILE: JSON.stringify(`./assets/${bundlesName}`), WORKER_FILE: JSON.stringify(`./assets/${workerName}`) },
  });
  if (script.includes('</script') || script.includes('<!--') || style.includes('</style')) {
    throw new Error('the script or the style would end its own element');
  }
  const html = readFileSync(join(root, 'src/index.html'), 'utf8')
    .replace('/*STYLE*/', () => style.trim())
    .replace('/*SCRIPT*/', () => script.trim());
  const hash = (text) => `'sha256-${sha256(text.trim(), 'base64')}'`;
  const policy = [
    "default-src 'none'",
    `script-src 'self' ${hash(script)}`,
    `style-src 'self' ${hash(style)}`,
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "worker-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types onetool",
  ].join('; ');
  const plain = {
    'index.html': html,
    'editor.js': editor,
    'bundles.js': bundles,
    'worker.js': worker,
    // The files keep fixed names here, so that the binary can include them; they are served under the hashed ones.
    'manifest.json': `${JSON.stringify({ policy, document: sha256(html, 'hex').slice(0, 16), editor: editorName, bundles: bundlesName, worker: workerName }, null, 2)}\n`,
    'LICENSES.txt': licenses(),
  };
  return plain;
}

/** The licences of what is bundled. */
function licenses() {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const parts = [];
  for (const [path, entry] of Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (path === '' || entry.dev) continue;
    const name = path.replace('node_modules/', '');
    const file = readdirSync(join(root, path)).find((file) => /^licen[cs]e/i.test(file));
    const text = file ? readFileSync(join(root, path, file), 'utf8').trim() : `License: ${entry.license}`;
    parts.push(`${name} ${entry.version}\n\n${text}\n`);
  }
  return parts.join(`\n${'-'.repeat(80)}\n\n`);
}

const isServed = (name) => name.endsWith('.html') || name.endsWith('.js');
const brotli = (text) =>
  brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length } });

function sizes(plain) {
  return Object.entries(plain)
    .filter(([name]) => isServed(name))
    .map(([name, text]) => ({
      name,
      bytes: Buffer.byteLength(text),
      gzip: gzipSync(text, { level: 9 }).length,
      brotli: brotli(text).length,
    }));
}

function check(plain) {
  const problems = [];
  for (const [name, text] of Object.entries(plain).filter(([name]) => isServed(name))) {
    for (const word of [/\beval\(/, /new Function\b/, /\bdangerouslySetInnerHTML=/]) {
      if (word.test(text)) problems.push(`${name} contains ${word}`);
    }
    if (/(?:src|href)="https?:/.test(text)) problems.push(`${name} loads something from elsewhere`);
  }
  for (const row of sizes(plain)) {
    const limit = row.name === 'index.html' ? LIMITS.document : row.name.includes('editor') ? LIMITS.editor : LIMITS.document;
    if (row.gzip > limit) problems.push(`${row.name} has ${row.gzip} bytes compressed; at most ${limit} are allowed`);
  }
  return problems;
}

function compare(plain) {
  const problems = [];
  for (const [name, text] of Object.entries(plain)) {
    const path = join(dist, name);
    if (!existsSync(path)) {
      problems.push(`dist/${name} is missing`);
      continue;
    }
    if (readFileSync(path, 'utf8') !== text) problems.push(`dist/${name} differs from what the sources give`);
    if (!isServed(name)) continue;
    // Compressors may differ between versions of Node; what comes out of them may not.
    if (gunzipSync(readFileSync(`${path}.gz`)).toString() !== text) problems.push(`dist/${name}.gz differs`);
    if (brotliDecompressSync(readFileSync(`${path}.br`)).toString() !== text) problems.push(`dist/${name}.br differs`);
  }
  return problems;
}

function write(plain) {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  for (const [name, text] of Object.entries(plain)) {
    const path = join(dist, name);
    writeFileSync(path, text);
    if (!isServed(name)) continue;
    writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
    writeFileSync(`${path}.br`, brotli(text));
  }
}

const plain = await files();
const problems = check(plain);
if (process.argv.includes('--check')) problems.push(...compare(plain));
else write(plain);
console.table(sizes(plain));
if (problems.length > 0) {
  console.error(problems.join('\n'));
  console.error('hint: run `npm ci && npm run build` in web/ and commit dist/');
  process.exit(1);
}
