// Import and export of bundles: an archive, an OpenAPI or Arazzo document, a Postman collection, a curl command.
import { useState } from 'preact/hooks';
import { request, segment } from '../api';
import { plural, t } from '../i18n';
import { plain } from '../text';
import { downloaded } from '../ui/download';
import { Badge, Failure, Notice } from '../ui/parts';

interface Reply {
  slug: string;
  isNew: boolean;
  tools: { slug: string; version: string; outcome: string }[];
  unexpressed: { what: string; reason: string }[];
  missingSecrets: string[];
  dryRun?: boolean;
}

const SHOWN = 200;

/** Downloads a bundle as a file. */
export const download = (bundleID: string, slug: string): Promise<void> =>
  downloaded(`tools/bundles/${segment(bundleID)}/export`, 'application/zip', `${slug}.zip`);

export function ImportForm({ onDone }: { onDone(slug: string | null): void }) {
  const [file, setFile] = useState<File | null>(null);
  const [text, setText] = useState('');
  const [slug, setSlug] = useState('');
  const [patterns, setPatterns] = useState('');
  const [onConflict, setOnConflict] = useState('fail');
  const [preview, setPreview] = useState<Reply | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);

  const submit = async (dryRun: boolean) => {
    setProblem(null);
    setIsBusy(true);
    try {
      const reply = await (file !== null && (await isArchive(file)) ? sendArchive(file, slug, onConflict, dryRun) : sendDocument(file === null ? text : await file.text(), { slug, patterns, onConflict, dryRun }));
      if (dryRun) setPreview(reply);
      else onDone(reply.slug);
    } catch (error) {
      setProblem(error);
      setPreview(null);
    }
    setIsBusy(false);
  };
  const isEmpty = file === null && text.trim() === '';
  return (
    <form class="card" noValidate aria-label={t('exchange.title')} onSubmit={(event) => { event.preventDefault(); void submit(false); }}>
      <h2>{t('exchange.title')}</h2>
      <label class="field"><span class="label">{t('exchange.file')}</span><input type="file" accept=".zip,.json,.yaml,.yml" onChange={(event) => { setFile(event.currentTarget.files?.[0] ?? null); setPreview(null); }} /></label>
      <label class="field"><span class="label">{t('exchange.text')}</span><textarea class="code" rows={6} spellcheck={false} disabled={file !== null} value={text} placeholder="curl https://api.example.com/v1/items -H 'Accept: application/json'" onInput={(event) => { setText(event.currentTarget.value); setPreview(null); }} /></label>
      <div class="row wrap">
        <label class="field"><span class="label">{t('exchange.slug')}</span><input value={slug} autocomplete="off" onInput={(event) => setSlug(event.currentTarget.value)} /></label>
        <label class="field"><span class="label">{t('exchange.patterns')}</span><input value={patterns} autocomplete="off" placeholder="/repos/*, list*" onInput={(event) => setPatterns(event.currentTarget.value)} /></label>
        <label class="field"><span class="label">{t('exchange.conflict')}</span>
          <select value={onConflict} onChange={(event) => setOnConflict(event.currentTarget.value)}>
            <option value="fail">{t('exchange.fail')}</option><option value="skip">{t('exchange.skip')}</option><option value="new-version">{t('exchange.newVersion')}</option>
          </select>
        </label>
      </div>
      {problem !== null && <Failure error={problem} />}
      {preview && <Preview reply={preview} />}
      <div class="row actions">
        <button type="submit" class="primary" disabled={isEmpty || isBusy}>{t('exchange.import')}</button>
        <button type="button" disabled={isEmpty || isBusy} onClick={() => void submit(true)}>{t('exchange.preview')}</button>
        <button type="button" onClick={() => onDone(null)}>{t('cancel')}</button>
      </div>
    </form>
  );
}

async function isArchive(file: File): Promise<boolean> {
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return start[0] === 0x50 && start[1] === 0x4b;
}

async function sendArchive(file: File, slug: string, onConflict: string, dryRun: boolean): Promise<Reply> {
  const query = new URLSearchParams({ onConflict, dryRun: String(dryRun) });
  if (slug !== '') query.set('slug', slug);
  return (await (await request(`tools/bundles/import?${query}`, { method: 'POST', bytes: file, type: 'application/zip' })).json()) as Reply;
}

async function sendDocument(text: string, options: { slug: string; patterns: string; onConflict: string; dryRun: boolean }): Promise<Reply> {
  const trimmed = text.trim();
  const body: Record<string, unknown> = { onConflict: options.onConflict, dryRun: options.dryRun };
  if (options.slug !== '') body['slug'] = options.slug;
  const patterns = options.patterns.split(',').map((pattern) => pattern.trim()).filter(Boolean);
  if (patterns.length > 0) body['patterns'] = patterns;
  if (/^curl\s/.test(trimmed)) body['curl'] = trimmed;
  else if (/^https?:\/\/\S+$/.test(trimmed)) body['url'] = trimmed;
  else body['document'] = text;
  return (await (await request('tools/bundles/import', { method: 'POST', body: JSON.stringify(body) })).json()) as Reply;
}

function Preview({ reply }: { reply: Reply }) {
  return (
    <div class="card" role="status">
      <p><strong>{plain(reply.slug)}</strong> {reply.isNew && <Badge>{t('exchange.new')}</Badge>} · {plural(reply.tools.length, 'tools.one', 'tools.many')}</p>
      <ul class="plain-list scrolls">
        {reply.tools.slice(0, SHOWN).map((tool) => <li key={`${tool.slug} ${tool.version}`} class="row"><code>{plain(tool.slug)}</code><code class="quiet">{plain(tool.version)}</code><span class="grow" /><span class="quiet">{plain(tool.outcome)}</span></li>)}
      </ul>
      {reply.tools.length > SHOWN && <p class="quiet">{t('exchange.moreTools', { count: reply.tools.length - SHOWN })}</p>}
      {reply.unexpressed.length > 0 && (
        <Notice kind="warn">
          <p>{t('exchange.unexpressed')}</p>
          <ul>{reply.unexpressed.slice(0, SHOWN).map((part, index) => <li key={index}>{plain(part.what)}: {plain(part.reason)}</li>)}</ul>
        </Notice>
      )}
      {reply.missingSecrets.length > 0 && <Notice kind="warn">{t('exchange.secrets', { names: reply.missingSecrets.map(plain).join(', ') })}</Notice>}
    </div>
  );
}
