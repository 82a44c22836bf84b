// A list that renders only the rows in view. Short lists are rendered whole, so that the browser's search finds them.
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export const WHOLE_BELOW = 150;
/** Number of rows rendered beyond the edges. */
const BEYOND = 12;

interface Props extends Omit<JSX.HTMLAttributes<HTMLDivElement>, 'children' | 'height'> {
  count: number;
  /** Height of all rows, or of each, in pixels. */
  height: number | ((index: number) => number);
  row(index: number): ComponentChildren;
  /** Scrolls this row into view when it changes. */
  focus?: number;
  /** Called with the rows in view. */
  onRange?(from: number, to: number): void;
  always?: boolean;
}

/** Positions of rows. */
interface Layout {
  start(index: number): number;
  /** The row at a vertical position. */
  at(top: number): number;
}

function layout(count: number, height: number | ((index: number) => number)): Layout {
  if (typeof height === 'number') return { start: (index) => index * height, at: (top) => Math.floor(top / height) };
  const starts = new Float64Array(count + 1);
  for (let index = 0; index < count; index += 1) starts[index + 1] = (starts[index] ?? 0) + height(index);
  const start = (index: number) => starts[index] ?? 0;
  const at = (top: number) => {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (start(middle) <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return { start, at };
}

export function VirtualList({ count, height, row, focus, onRange, always, ...attributes }: Props) {
  const isWhole = count < WHOLE_BELOW && !always;
  const element = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 0 });
  const { start, at } = layout(count, height);
  const look = () => {
    const { scrollTop = 0, clientHeight = 0 } = element.current ?? {};
    setView((old) => (old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight }));
  };
  useLayoutEffect(() => {
    const list = element.current;
    if (!list) return;
    look();
    list.addEventListener('scroll', look, { passive: true });
    const sizes = new ResizeObserver(look);
    sizes.observe(list);
    return () => {
      list.removeEventListener('scroll', look);
      sizes.disconnect();
    };
  }, []);
  // The browser scrolls by itself when a list gets shorter.
  useLayoutEffect(look, [count]);
  useLayoutEffect(() => {
    const list = element.current;
    if (focus === undefined || focus < 0 || focus >= count || !list) return;
    const [top, end] = [start(focus), start(focus + 1)];
    if (top < list.scrollTop) list.scrollTop = top;
    else if (end > list.scrollTop + list.clientHeight) list.scrollTop = end - list.clientHeight;
    look();
  }, [focus, isWhole]);
  const from = isWhole ? 0 : Math.max(0, Math.min(count, at(view.top)) - BEYOND);
  const to = isWhole ? count : Math.min(count, at(view.top + view.height) + 1 + BEYOND);
  useLayoutEffect(() => onRange?.(from, to), [from, to, count]);
  const rows = Array.from({ length: Math.max(0, to - from) }, (_, offset) => from + offset);
  const size = (index: number) => `${start(index + 1) - start(index)}px`;
  return (
    <div {...attributes} ref={element} class={`scroller ${attributes.class ?? ''}`}>
      {isWhole
        ? rows.map((index) => <div key={index} data-index={index} style={{ height: size(index) }}>{row(index)}</div>)
        : (
          <div class="virtual" style={{ height: `${start(count)}px` }}>
            {rows.map((index) => (
              <div key={index} data-index={index} class="virtual-row" style={{ height: size(index), transform: `translateY(${start(index)}px)` }}>
                {row(index)}
              </div>
            ))}
          </div>
        )}
    </div>
  );
}
