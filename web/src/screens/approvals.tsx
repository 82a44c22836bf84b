// Calls that wait for a person: allow once, for the session, always, or refuse.
import { useState } from 'preact/hooks';
import { may, segment, send } from '../api';
import { t, time } from '../i18n';
import { parse, stringify } from '../json/lossless';
import { type Approval, approvals, approvalsKnown } from '../live';
import { address, place } from '../router';
import { plain, shortened } from '../text';
import { CopyButton, Notice, say, sayProblem } from '../ui/parts';
import { TextView } from '../ui/result';

type Decision = 'once' | 'session' | 'always' | 'deny';
const DECISIONS: Decision[] = ['once', 'session', 'always', 'deny'];

export function ApprovalsScreen() {
  const wanted = place.value.subject;
  const list = [...approvals.value].sort((a, b) => Number(b.id === wanted) - Number(a.id === wanted));
  return (
    <div class="page">
      <h1>{t('nav.approvals')}</h1>
      {wanted !== '' && approvalsKnown.value && !list.some((approval) => approval.id === wanted) && <Notice>{t('approvals.gone')}</Notice>}
      {list.length === 0 && <p class="quiet empty">{t('approvals.none')}</p>}
      <ul class="plain-list cards" aria-live="polite">
        {list.map((approval) => <Card key={approval.id} approval={approval} isWanted={approval.id === wanted} />)}
      </ul>
    </div>
  );
}

/** One argument per line. Truncated text is not valid JSON and stays as it is. */
function spread(text: string): string {
  try {
    return stringify(parse(text), 2);
  } catch {
    return text;
  }
}

function Card({ approval, isWanted }: { approval: Approval; isWanted: boolean }) {
  const [isBusy, setIsBusy] = useState(false);
  const decide = async (decision: Decision) => {
    setIsBusy(true);
    try {
      await send('POST', `api/approvals/${segment(approval.id)}`, { decision });
      approvals.value = approvals.value.filter((other) => other.id !== approval.id);
      say(t(`approvals.${decision}.done`, { name: plain(approval.tool) }));
    } catch (error) {
      sayProblem(error);
    }
    setIsBusy(false);
  };
  return (
    <li class={`card ${isWanted ? 'wanted' : ''}`}>
      <div class="row wrap"><h2 class="tool-name">{plain(approval.tool)}</h2><span class="grow" /><span class="quiet">{time(approval.at)}</span></div>
      <p>{t('approvals.wants', { who: [approval.client, approval.principal].filter((part) => part !== undefined).map((part) => shortened(part!, 60)).join(' · ') || approval.caller })}</p>
      <TextView text={spread(approval.arguments)} label={t('activity.arguments')} />
      {approval.alwaysWrites.length > 0 && <p class="quiet small-text">{t('approvals.alwaysWrites', { rule: `${plain(approval.tool)}: allow` })} {approval.alwaysWrites.map((file) => <code key={file}>{plain(file)} </code>)}</p>}
      <div class="row actions">
        {DECISIONS.map((decision) => (
          <button key={decision} type="button" class={decision === 'once' ? 'primary' : decision === 'deny' ? 'danger' : ''} disabled={isBusy || !may('admin')} title={t(`approvals.${decision}.hint`)} onClick={() => void decide(decision)}>
            {t(`approvals.${decision}`)}
          </button>
        ))}
        <span class="grow" />
        <CopyButton text={`${location.origin}${location.pathname}${address('approvals', approval.id)}`} label={t('copyLink')} />
      </div>
    </li>
  );
}
