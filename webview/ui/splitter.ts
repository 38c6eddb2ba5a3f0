/** A bar between two panes that mouse and keyboard can move. */
import { h } from './dom';

export interface SplitterOptions {
  readonly label: string;
  /** Sizes in px of the pane after the bar. */
  readonly least: number;
  readonly initial: number;
  /** Room there is for both. */
  readonly room: () => number;
  /** The panes stand above each other. */
  readonly stacked: () => boolean;
  readonly onSize: (size: number) => void;
}

export function splitter(options: SplitterOptions): HTMLElement {
  let size = options.initial;
  const bar = h('div', {
    class: 'splitter',
    role: 'separator',
    tabindex: 0,
    aria: { label: options.label, orientation: 'vertical', valuemin: String(options.least) },
  });
  const set = (next: number): void => {
    const most = Math.max(options.least, options.room() - 180);
    size = Math.round(Math.max(options.least, Math.min(most, next)));
    bar.setAttribute('aria-valuenow', String(size));
    bar.setAttribute('aria-valuemax', String(most));
    options.onSize(size);
  };
  bar.addEventListener('pointerdown', (down) => {
    down.preventDefault();
    bar.setPointerCapture(down.pointerId);
    const start = size;
    const move = (event: PointerEvent): void =>
      set(
        start + (options.stacked() ? down.clientY - event.clientY : down.clientX - event.clientX),
      );
    bar.addEventListener('pointermove', move);
    bar.addEventListener('pointerup', () => bar.removeEventListener('pointermove', move), {
      once: true,
    });
  });
  bar.addEventListener('keydown', ({ key }) => {
    if (key === 'ArrowLeft' || key === 'ArrowUp') set(size + 24);
    else if (key === 'ArrowRight' || key === 'ArrowDown') set(size - 24);
  });
  options.onSize(size);
  return bar;
}
