// Use, errors and savings over time.
import { useState } from 'preact/hooks';
import { duration, money, number, t } from '../i18n';
import { address } from '../router';
import { shortened } from '../text';
import { Chart, type ChartData } from '../ui/chart';
import { useLoad } from '../ui/load';
import { Failure, Notice } from '../ui/parts';

interface Statistics {
  isEnabled: boolean;
  runs: number;
  calls: number;
  errors: number;
  averageMs: number;
  contextSaved: number;
  timeSavedMs: number;
  savingsUsd: number;
  computed: Record<string, string>;
  chart: ChartData;
  tools: { tool: string; calls: number; errors: number; averageMs: number; maxMs: number }[];
}

const PERIODS = ['day', 'week', 'month', 'all'] as const;

export function StatisticsSection() {
  const [period, setPeriod] = useState<string>('week');
  const { data, error, reload } = useLoad<Statistics>(`api/stats?period=${period}`);
  return (
    <>
      <div class="row">
        <label class="inline">{t('stats.period')}{' '}
          <select value={period} onChange={(event) => setPeriod(event.currentTarget.value)}>
            {PERIODS.map((name) => <option key={name} value={name}>{t(`stats.${name}`)}</option>)}
          </select>
        </label>
        <span class="grow" />
        <button type="button" class="small" onClick={reload}>{t('refresh')}</button>
      </div>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data && !data.isEnabled && <Notice kind="warn">{t('stats.off')}</Notice>}
      {data && (
        <>
          <dl class="figures">
            <div><dt>{t('activity.runs')}</dt><dd>{number(data.runs)}</dd></div>
            <div><dt>{t('use.calls')}</dt><dd>{number(data.calls)}</dd></div>
            <div><dt>{t('use.errors')}</dt><dd>{number(data.errors)}</dd></div>
            <div><dt>{t('use.average')}</dt><dd>{data.calls > 0 ? duration(data.averageMs) : '–'}</dd></div>
            <div><dt>{t('stats.contextSaved')}</dt><dd>{number(data.contextSaved)}</dd></div>
            <div><dt>{t('stats.timeSaved')}</dt><dd>{duration(data.timeSavedMs)}</dd></div>
            <div><dt>{t('stats.savings')}</dt><dd>{money(data.savingsUsd)}</dd></div>
          </dl>
          <Chart data={data.chart} label={t('stats.callsChart')} value={(bar) => bar.calls} bad={(bar) => bar.errors} />
          <Chart data={data.chart} label={t('stats.savedChart')} value={(bar) => bar.contextSaved} />
          <p class="quiet small-text">{data.computed.context_saved}</p>
          {data.tools.length > 0 && (
            <div class="table-host" tabIndex={0} role="region" aria-label={t('stats.tools')}>
              <table>
                <thead><tr><th scope="col">{t('stats.tool')}</th><th scope="col">{t('use.calls')}</th><th scope="col">{t('use.errors')}</th><th scope="col">{t('use.average')}</th><th scope="col">{t('stats.slowest')}</th></tr></thead>
                <tbody>
                  {data.tools.map((tool) => (
                    <tr key={tool.tool}>
                      <td><a class="tool-name" href={address('tools', tool.tool)}>{shortened(tool.tool, 80)}</a></td>
                      <td>{number(tool.calls)}</td><td class={tool.errors > 0 ? 'bad-text' : ''}>{number(tool.errors)}</td><td>{duration(tool.averageMs)}</td><td>{duration(tool.maxMs)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </>
  );
}
