// Bar charts over time, drawn without a library; the values are also in a table for screen readers.
import { useState } from 'preact/hooks';
import { language, number, t } from '../i18n';

export interface Bar {
  start: string;
  calls: number;
  errors: number;
  contextSaved: number;
}

export interface ChartData {
  barSeconds: number;
  bars: Bar[];
}

const HEIGHT = 80;
const DAY = 86_400;

function when(start: string, barSeconds: number): string {
  const date = new Date(start);
  if (Number.isNaN(date.getTime())) return start;
  const options: Intl.DateTimeFormatOptions = barSeconds < DAY ? { weekday: 'short', hour: '2-digit', minute: '2-digit' } : { day: 'numeric', month: 'short', timeZone: 'UTC' };
  return new Intl.DateTimeFormat(language.value, options).format(date);
}

/** One value over time; errors are shown in the same bars, in red. */
export function Chart({ data, label, value, bad }: { data: ChartData; label: string; value(bar: Bar): number; bad?(bar: Bar): number }) {
  const [isTable, setIsTable] = useState(false);
  const { bars, barSeconds } = data;
  const most = Math.max(0, ...bars.map(value));
  const scale = HEIGHT / Math.max(1, most);
  const first = bars[0];
  const last = bars[bars.length - 1];
  const filled = bars.filter((bar) => value(bar) > 0);
  return (
    <figure class="chart">
      <figcaption class="row"><strong>{label}</strong><span class="quiet">{t('chart.most', { count: most })}</span><span class="grow" />
        <button type="button" class="link small" aria-pressed={isTable} onClick={() => setIsTable(!isTable)}>{isTable ? t('chart.asBars') : t('chart.asTable')}</button>
      </figcaption>
      {isTable ? (
        <div class="scrolls" tabIndex={0} role="region" aria-label={label}>
          <table>
            <thead><tr><th scope="col">{t('activity.when')}</th><th scope="col">{label}</th>{bad && <th scope="col">{t('use.errors')}</th>}</tr></thead>
            <tbody>{filled.map((bar) => <tr key={bar.start}><td>{when(bar.start, barSeconds)}</td><td>{number(value(bar))}</td>{bad && <td>{number(bad(bar))}</td>}</tr>)}</tbody>
          </table>
          {filled.length === 0 && <p class="quiet">{t('chart.nothing')}</p>}
        </div>
      ) : (
        <svg viewBox={`0 0 ${bars.length * 8} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${t('chart.most', { count: most })}`}>
          {bars.map((bar, index) => {
            const height = Math.max(value(bar) > 0 ? 2 : 0.5, value(bar) * scale);
            const failed = bad ? Math.max(bad(bar) > 0 ? 2 : 0, bad(bar) * scale) : 0;
            return (
              <g key={bar.start}>
                <title>{`${when(bar.start, barSeconds)}: ${number(value(bar))}`}</title>
                <rect x={index * 8 + 1} width="6" y={HEIGHT - height} height={height} />
                {failed > 0 && <rect class="bad" x={index * 8 + 1} width="6" y={HEIGHT - failed} height={failed} />}
              </g>
            );
          })}
        </svg>
      )}
      {!isTable && first && last && <div class="row quiet small-text"><span>{when(first.start, barSeconds)}</span><span class="grow" /><span>{when(last.start, barSeconds)}</span></div>}
    </figure>
  );
}
