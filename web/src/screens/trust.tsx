// Whether files that came with the project's folder may run; the decision must be confirmed.
import { useState } from 'preact/hooks';
import { may, send } from '../api';
import { t } from '../i18n';
import { plain } from '../text';
import { loadToolbox } from '../toolbox';
import { useLoad } from '../ui/load';
import { Dialog, Failure, Notice, say, sayProblem } from '../ui/parts';

interface Trust {
  folder: string;
  isTrusted: boolean;
  isRecorded: boolean;
  isDecided: boolean;
  heldBack: string[];
}

export function TrustSection({ onChange }: { onChange(): void }) {
  const { data, error, reload, set } = useLoad<Trust>(may('admin') ? 'api/trust' : null);
  const [asked, setAsked] = useState<boolean | null>(null);
  if (!may('admin')) return null;
  const decide = async (isTrusted: boolean) => {
    setAsked(null);
    try {
      set(await send<Trust>('PUT', 'api/trust', { folder: data?.folder, isTrusted }));
      say(isTrusted ? t('trust.done') : t('trust.undone'));
      void loadToolbox();
      onChange();
    } catch (problem) {
      sayProblem(problem);
      reload();
    }
  };
  return (
    <section class="card">
      <h2>{t('trust.title')}</h2>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data && (
        <>
          <p><code>{plain(data.folder)}</code></p>
          {data.isTrusted ? <p class="quiet">{data.isDecided ? t('trust.byEnvironment') : data.isRecorded ? t('trust.is') : t('trust.nothing')}</p> : data.heldBack.length === 0 ? <p class="quiet">{t('trust.isNot')}</p> : (
            <Notice kind="warn">
              <p>{t('trust.held')}</p>
              <HeldBack parts={data.heldBack} />
            </Notice>
          )}
          <div class="row">
            {!data.isTrusted && <button type="button" class="primary" disabled={data.isDecided} onClick={() => setAsked(true)}>{t('trust.ask')}</button>}
            {data.isTrusted && data.isRecorded && <button type="button" disabled={data.isDecided} onClick={() => setAsked(false)}>{t('trust.remove')}</button>}
          </div>
          {!data.isTrusted && data.isDecided && <p class="quiet">{t('trust.byEnvironment')}</p>}
        </>
      )}
      {asked !== null && data && (
        <Dialog label={asked ? t('trust.question') : t('trust.removeQuestion')} onClose={() => setAsked(null)}>
          <h2>{asked ? t('trust.question') : t('trust.removeQuestion')}</h2>
          <p><code>{plain(data.folder)}</code></p>
          {asked && <><p>{t('trust.meaning')}</p><HeldBack parts={data.heldBack} /></>}
          {!asked && <p>{t('trust.removeMeaning')}</p>}
          <div class="row actions"><button type="button" class={asked ? 'danger' : 'primary'} onClick={() => void decide(asked)}>{asked ? t('trust.confirm') : t('trust.remove')}</button><button type="button" onClick={() => setAsked(null)}>{t('cancel')}</button></div>
        </Dialog>
      )}
    </section>
  );
}

function HeldBack({ parts }: { parts: string[] }) {
  return <ul class="scrolls" tabIndex={0} aria-label={t('trust.held')}>{parts.map((part, index) => <li key={index}><code>{plain(part)}</code></li>)}</ul>;
}
