// A list that shows only the rows in view. Short lists are shown whole, so that the browser's own search finds them.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core';
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useMemo, useReducer, useRef } from 'preact/hooks';

export const WHOLE_BELOW = 150;

interface Props extends Omit<JSX.HTMLAttributes<HTMLDivElement>, 'children'> {
  count: number;
  height(index: number): number;
  row(index: number): ComponentChildren;
  /** Brings this row into view when it changes. */
  focus?: number;
  /** Is told which rows are in view. */
  onRange?(from: number, to: number): void;
  always?: boolean;
}

export function VirtualList({ count, height, row, focus, onRange, always, ...attributes }: Props) {
  const isWhole = count < WHOLE_BELOW && !always;
  const element = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const virtual = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, Element>({
        count: 0,
        getScrollElement: () => element.current,
        estimateSize: () => 40,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        onChange: () => redraw(undefined),
        overscan: 12,
      }),
    [],
  );
  virtual.setOptions({ ...virtual.options, count: isWhole ? 0 : count, estimateSize: height });
  useLayoutEffect(() => virtual._didMount(), [virtual]);
  useLayoutEffect(() => {
    virtual._willUpdate();
  });
  useLayoutEffect(() => virtual.measure(), [count, virtual]);
  useLayoutEffect(() => {
    if (focus === undefined || focus < 0) return;
    if (isWhole) element.current?.querySelector(`[data-index="${focus}"]`)?.scrollIntoView({ block: 'nearest' });
    else virtual.scrollToIndex(focus, { align: 'auto' });
  }, [focus, isWhole, virtual]);
  const items = isWhole ? [] : virtual.getVirtualItems();
  const from = isWhole ? 0 : (items[0]?.index ?? 0);
  const to = isWhole ? count : (items[items.length - 1]?.index ?? -1) + 1;
  useLayoutEffect(() => onRange?.(from, to), [from, to, count]);
  return (
    <div {...attributes} ref={element} class={`scroller ${attributes.class ?? ''}`}>
      {isWhole
        ? Array.from({ length: count }, (_, index) => <div key={index} data-index={index} style={{ height: `${height(index)}px` }}>{row(index)}</div>)
        : (
          <div class="virtual" style={{ height: `${virtual.getTotalSize()}px` }}>
            {items.map((item) => (
              <div key={item.key as number} data-index={item.index} class="virtual-row" style={{ height: `${item.size}px`, transform: `translateY(${item.start}px)` }}>
                {row(item.index)}
              </div>
            ))}
          </div>
        )}
    </div>
  );
}
