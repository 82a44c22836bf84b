// One tool: its description, the tester, its statistics.
import { useEffect, useId, useState } from 'preact/hooks';
import { type ToolDetail, getTool, may, toolPath } from '../api';
import { duration, number, plural, t, time } from '../i18n';
import { stringify, fromPlain } from '../json/lossless';
import { address, place } from '../router';
import { plain, shortened } from '../text';
import { byName, isSwitchable, toggle } from '../toolbox';
import { Chart } from '../ui/chart';
import { useLoad } from '../ui/load';
import { Badge, CopyButton, Failure, Notice, Switch, Tabs } from '../ui/parts';
import { Tester } from './tester';
import { kindName } from './tools';

export function ToolPage({ name }: { name: string }) {
  const { data: tool, error, reload, isLoading } = useLoad<ToolDetail>(toolPath(name), getTool);
  const row = byName.value.get(name);
  const isEnabled = row?.isEnabled ?? tool?.isEnabled ?? false;
  const [tab, setTab] = useState<'try' | 'about' | 'use'>('try');
  const id = useId();
  useEffect(() => {
    if (tool && tool.isEnabled !== isEnabled) reload();
  }, [isEnabled]);
  // A previously unknown tool may be known by now.
  useEffect(() => {
    if (error !== null && row) reload();
  }, [row === undefined]);
  return (
    <article class="tool">
      <header>
        <a class="back" href={address('tools')}>← {t('nav.tools')}</a>
        <div class="row">
          <h2>{plain(name)}</h2>
          {tool && <Badge kind={tool.kind}>{kindName(tool.kind)}</Badge>}
          <span class="grow" />
          {tool && <Switch isOn={isEnabled} disabled={!may('admin') || !isSwitchable(tool.pack)} label={t('tools.switchTool', { name: plain(name) })} onChange={(isOn) => void toggle('tool', name, isOn)} />}
        </div>
      </header>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {!tool && isLoading && <p class="quiet loading">{t('loading')}</p>}
      {tool && (
        <>
          {!isEnabled && tool.disabledReason && <Notice kind="warn">{plain(tool.disabledReason)}</Notice>}
          <pre class="signature" tabIndex={0} aria-label={t('tool.signature')}>{plain(tool.signature)}</pre>
          <Description text={tool.description} />
          <Tabs id={id} label={plain(name)} tabs={[['try', t('tool.try')], ['about', t('tool.about')], ['use', t('tool.use')]]} current={tab} onChange={(next) => setTab(next)} />
          <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${tab}`}>
            <div hidden={tab !== 'try'}><Tester tool={{ ...tool, isEnabled }} initial={place.value.query.get('args') ?? undefined} /></div>
            {tab === 'about' && <About tool={tool} />}
            {tab === 'use' && <Use tool={tool} />}
          </div>
        </>
      )}
    </article>
  );
}

const SHORT = 600;

function Description({ text }: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const clean = plain(text.trim());
  const isLong = clean.length > SHORT;
  return (
    <div class="description-text">
      <p>{isLong && !isWhole ? `${clean.slice(0, SHORT)}…` : clean}</p>
      {isLong && <button type="button" class="link small" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? t('less') : t('more')}</button>}
    </div>
  );
}

function About({ tool }: { tool: ToolDetail }) {
  const facts: [string, string | undefined][] = [
    [t('tool.pack'), tool.pack],
    [t('tool.origin'), tool.origin],
    [t('tool.returns'), tool.returns],
    [t('tool.tags'), tool.tags?.join(', ')],
  ];
  return (
    <>
      <dl class="facts">
        {facts.filter(([, value]) => value).map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{plain(value ?? '')}</dd></div>)}
      </dl>
      {tool.learned && (
        <>
          <Block title={t('tool.learned')} text={tool.learned.shape} />
          <p class="quiet small-text">{plural(tool.learned.times, 'tool.learnedOne', 'tool.learnedMany')}</p>
        </>
      )}
      {tool.example && <Block title={t('tool.example')} text={tool.example} />}
      {(tool.versions?.length ?? 0) > 0 && (
        <>
          <h3>{t('tool.versions')}</h3>
          <ul class="plain-list">{tool.versions?.map((version) => <li key={version.version} class="row"><code>{plain(version.version)}</code><span class="quiet">{time(version.modifiedAt)}</span>{!version.isEnabled && <Badge>{t('tools.off')}</Badge>}</li>)}</ul>
        </>
      )}
      <Block title={t('tool.inputSchema')} text={pretty(tool.inputSchema)} />
      {tool.outputSchema !== undefined && <Block title={t('tool.outputSchema')} text={pretty(tool.outputSchema)} />}
    </>
  );
}

const MAX_SCHEMA = 200_000;

function pretty(value: unknown): string {
  const text = stringify(fromPlain(value), 2);
  return text.length > MAX_SCHEMA ? `${text.slice(0, MAX_SCHEMA)}…` : text;
}

function Block({ title, text }: { title: string; text: string }) {
  return (
    <section class="block">
      <div class="row"><h3>{title}</h3><span class="grow" /><CopyButton text={text} /></div>
      <pre tabIndex={0} role="region" aria-label={title}>{plain(text)}</pre>
    </section>
  );
}

function Use({ tool }: { tool: ToolDetail }) {
  const { use } = tool;
  return (
    <>
      <dl class="figures">
        <div><dt>{t('use.calls')}</dt><dd>{number(use.calls)}</dd></div>
        <div><dt>{t('use.errors')}</dt><dd>{number(use.errors)}</dd></div>
        <div><dt>{t('use.average')}</dt><dd>{use.calls > 0 ? duration(use.averageMs) : '–'}</dd></div>
        <div><dt>{t('use.last')}</dt><dd>{use.lastAt ? time(use.lastAt) : '–'}</dd></div>
      </dl>
      {use.chart && <Chart data={use.chart} label={t('stats.callsChart')} value={(bar) => bar.calls} bad={(bar) => bar.errors} />}
      {Object.keys(use.errorTypes ?? {}).length > 0 && (
        <>
          <h3>{t('use.errorTypes')}</h3>
          <p class="row wrap">{Object.entries(use.errorTypes ?? {}).sort(([, a], [, b]) => b - a).map(([name, count]) => <Badge key={name}>{shortened(name, 60)} × {number(count)}</Badge>)}</p>
        </>
      )}
      {tool.failures.length > 0 && (
        <>
          <h3>{t('use.failures')}</h3>
          <ul class="plain-list">{tool.failures.slice(0, 5).map((call) => <li key={call.id}><span class="quiet">{time(call.at)} · {call.caller}</span><pre tabIndex={0} role="region" aria-label={t('use.failures')}>{plain(call.error ?? '')}</pre></li>)}</ul>
        </>
      )}
      <h3>{t('use.recent')}</h3>
      {tool.recent.length === 0 && <p class="quiet">{t('use.none')}</p>}
      <ul class="plain-list">
        {tool.recent.map((call) => (
          <li key={call.id} class="row">
            <span class={call.error ? 'dot bad' : 'dot good'} role="img" aria-label={call.error ? t('result.failed') : t('result.ok')} />
            <span>{time(call.at)}</span>
            <span class="quiet">{duration(call.durationMs ?? 0)} · {call.caller}</span>
            {call.error && <span class="bad-text grow">{plain(call.error)}</span>}
          </li>
        ))}
      </ul>
      <p class="quiet">{plural(tool.recent.length, 'use.shownOne', 'use.shownMany')}</p>
    </>
  );
}
