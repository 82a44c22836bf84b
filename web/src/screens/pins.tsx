// Tools of servers that differ from the accepted version: old and new side by side, with a button to accept.
import { useState } from 'preact/hooks';
import { may, segment, send } from '../api';
import { type DiffLine, type Pair, pairs } from '../diff';
import { plural, t } from '../i18n';
import { plain, shortened } from '../text';
import { useEvery, useLoad } from '../ui/load';
import { Dialog, Notice, say, sayProblem } from '../ui/parts';
import { VirtualList } from '../ui/virtual';

interface Pin {
  server: string;
  tool: string;
  before?: string;
  now: string;
  diff: DiffLine[];
  digest: string;
}

/** Poll interval for changes. */
export const LOOK_MS = 3_000;

export function Changes() {
  const { data, reload } = useLoad<{ pins: Pin[] }>(may('admin') ? 'api/pins' : null);
  const [open, setOpen] = useState<string | null>(null);
  // No refresh while a change is being reviewed.
  useEvery(LOOK_MS, open === null ? reload : null);
  const pins = data?.pins ?? [];
  const servers = [...new Set(pins.map((pin) => pin.server))];
  const accept = async (target: string, accepted: Pin[]) => {
    try {
      await send('POST', `api/pins/${segment(target)}/accept`, { digests: accepted.map((pin) => pin.digest) });
      say(t('pins.accepted', { name: plain(target) }));
      if (accepted.length === pins.filter((pin) => pin.server === accepted[0]?.server).length) setOpen(null);
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  const shown = pins.filter((pin) => pin.server === open);
  return (
    <>
      {servers.map((server) => {
        const own = pins.filter((pin) => pin.server === server);
        return (
          <Notice key={server} kind="warn">
            <div class="row wrap">
              <span class="grow"><strong>{plain(server)}</strong>: {plural(own.length, 'pins.one', 'pins.many')}</span>
              <button type="button" class="small" onClick={() => setOpen(server)}>{t('pins.review')}</button>
            </div>
          </Notice>
        );
      })}
      {open !== null && shown.length > 0 && (
        <Dialog label={t('pins.title', { name: plain(open) })} class="wide" onClose={() => setOpen(null)}>
          <div class="row"><h2>{t('pins.title', { name: plain(open) })}</h2><span class="grow" /><button type="button" class="link" aria-label={t('close')} onClick={() => setOpen(null)}>✕</button></div>
          <p class="quiet">{t('pins.hint')}</p>
          {shown.map((pin) => (
            <section key={pin.tool} class="block">
              <div class="row wrap"><h3 class="tool-name">{shortened(pin.tool, 100)}</h3><span class="grow" /><button type="button" class="small" disabled={!may('admin')} onClick={() => void accept(`${pin.server}.${pin.tool}`, [pin])}>{t('pins.acceptOne')}</button></div>
              <Diff pin={pin} />
            </section>
          ))}
          <div class="row actions"><button type="button" class="primary" disabled={!may('admin')} onClick={() => void accept(open, shown)}>{t('pins.acceptAll', { name: plain(open) })}</button><button type="button" onClick={() => setOpen(null)}>{t('cancel')}</button></div>
        </Dialog>
      )}
    </>
  );
}

/** Longer lists are rendered while scrolling. */
const DRAWN = 400;

function Diff({ pin }: { pin: Pin }) {
  if (pin.before === undefined) {
    return (
      <>
        <Notice>{t('pins.unknown')}</Notice>
        <pre tabIndex={0} role="region" aria-label={t('pins.now')}>{plain(pin.now)}</pre>
      </>
    );
  }
  const rows = pairs(pin.diff);
  const row = (pair: Pair | undefined) => pair && (
    <div class="diff-row" role="row">
      <span role="cell" class={pair.isSame ? '' : pair.before === null ? 'none' : 'removed'}>{pair.before !== null && <>{!pair.isSame && <del class="visually-hidden">{t('pins.removed')}</del>}{plain(pair.before)}</>}</span>
      <span role="cell" class={pair.isSame ? '' : pair.now === null ? 'none' : 'added'}>{pair.now !== null && <>{!pair.isSame && <ins class="visually-hidden">{t('pins.added')}</ins>}{plain(pair.now)}</>}</span>
    </div>
  );
  const head = <div class="diff-row head" role="row"><span role="columnheader">{t('pins.before')}</span><span role="columnheader">{t('pins.now')}</span></div>;
  if (rows.length > DRAWN) {
    return (
      <div class="diff" role="table" aria-label={plain(pin.tool)}>
        {head}
        <VirtualList class="diff-body fixed" role="rowgroup" count={rows.length} height={22} style={{ height: '20rem' }} row={(index) => row(rows[index])} />
      </div>
    );
  }
  return (
    <div class="diff" role="table" aria-label={plain(pin.tool)} tabIndex={0}>
      {head}
      <div class="diff-body" role="rowgroup">{rows.map((pair, index) => <div key={index} role="presentation">{row(pair)}</div>)}</div>
    </div>
  );
}
