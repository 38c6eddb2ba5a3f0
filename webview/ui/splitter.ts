/** A bar between two panes that mouse and keyboard can move. */
import { h } from './dom';

export interface SplitterOptions {
  readonly label: string;
  /** Sizes in px of the pane after the bar. */
  readonly least: number;
  readonly size: () => number;
  /** Room there is for both. */
  readonly room: () => number;
  /** The panes stand above each other. */
  readonly stacked: () => boolean;
  readonly onSize: (size: number) => void;
}

/** What must be left of the pane before the bar. */
const OTHER_PANE = 120;

export function splitter(options: SplitterOptions): HTMLElement {
  const { least } = options;
  const bar = h('div', {
    class: 'splitter',
    role: 'separator',
    tabindex: 0,
    aria: { label: options.label, orientation: 'vertical', valuemin: String(least) },
  });
  const set = (next: number): void => {
    const most = Math.max(least, options.room() - OTHER_PANE);
    const size = Math.round(Math.max(least, Math.min(most, next)));
    bar.setAttribute('aria-orientation', options.stacked() ? 'horizontal' : 'vertical');
    bar.setAttribute('aria-valuenow', String(size));
    bar.setAttribute('aria-valuemax', String(most));
    options.onSize(size);
  };
  bar.addEventListener('pointerdown', (down) => {
    down.preventDefault();
    bar.setPointerCapture(down.pointerId);
    const start = options.size();
    const move = (event: PointerEvent): void =>
      set(
        start + (options.stacked() ? down.clientY - event.clientY : down.clientX - event.clientX),
      );
    const stop = (): void => bar.removeEventListener('pointermove', move);
    bar.addEventListener('pointermove', move);
    bar.addEventListener('pointerup', stop, { once: true });
    bar.addEventListener('pointercancel', stop, { once: true });
  });
  bar.addEventListener('keydown', ({ key }) => {
    if (key === 'ArrowLeft' || key === 'ArrowUp') set(options.size() + 24);
    else if (key === 'ArrowRight' || key === 'ArrowDown') set(options.size() - 24);
  });
  return bar;
}
