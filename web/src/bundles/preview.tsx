// Previews the request that a tool would send while it is edited.
import { useEffect, useState } from 'preact/hooks';
import { ApiError, segment, send } from '../api';
import { type Draft, EMPTY, valueOf } from '../form/draft';
import { SchemaForm } from '../form/form';
import { sample } from '../form/sample';
import { t } from '../i18n';
import { fromPlain, parse, stringify, toExact } from '../json/lossless';
import { plain } from '../text';
import { Notice } from '../ui/parts';

interface Shown {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
  missingSecrets?: string[];
}

const PAUSE_MS = 250;

/** `onProblem` gets the problems of the tool itself, with their places. */
export function RequestPreview({ bundle, tool, onProblem }: { bundle: string; tool: Record<string, unknown> | null; onProblem(problem: ApiError | null): void }) {
  const [trial, setTrial] = useState<Draft>(EMPTY);
  const [shown, setShown] = useState<Shown | null>(null);
  const [problem, setProblem] = useState('');
  const given = valueOf(trial).value;
  const args = { ...sample(tool?.['argSchema']), ...(given instanceof Map ? (toExact(given) as Record<string, unknown>) : {}) };
  const text = tool && stringify(fromPlain({ tool: { ...tool, type: 'http' }, args }));
  useEffect(() => {
    if (text === null) return;
    let isGone = false;
    const timer = setTimeout(() => {
      send<{ request?: Shown }>('POST', `tools/bundles/${segment(bundle)}/preview`, parse(text)).then(
        ({ request }) => {
          if (isGone) return;
          setShown(request ?? null);
          setProblem('');
          onProblem(null);
        },
        (error: unknown) => {
          if (isGone) return;
          setProblem(error instanceof Error ? error.message : String(error));
          onProblem(error instanceof ApiError && error.pointer !== undefined ? new ApiError(error.status, error.code, error.message, error.hint, error.pointer.replace(/^\/tool(?=\/)/, '')) : null);
        },
      );
    }, PAUSE_MS);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [text]);
  return (
    <section class="block request-preview" aria-label={t('preview.title')}>
      <h3>{t('preview.title')}</h3>
      {problem !== '' && <Notice kind="warn">{plain(problem)}</Notice>}
      {shown && (
        <pre class={problem === '' ? '' : 'quiet'} tabIndex={0}>
          <strong>{plain(shown.method)}</strong> {plain(shown.url)}{'\n'}
          {Object.entries(shown.headers).map(([name, value]) => `${plain(name)}: ${plain(value)}\n`)}
          {shown.body !== undefined && shown.body !== null && `\n${plain(shown.body)}`}
        </pre>
      )}
      {(shown?.missingSecrets?.length ?? 0) > 0 && <Notice kind="warn">{t('exchange.secrets', { names: plain(shown?.missingSecrets?.join(', ') ?? '') })}</Notice>}
      <details>
        <summary>{t('preview.arguments')}</summary>
        <SchemaForm form={{ root: tool?.['argSchema'] ?? {}, problems: NONE, showAll: false }} draft={trial} onChange={setTrial} />
      </details>
    </section>
  );
}

const NONE = new Map<string, string>();
