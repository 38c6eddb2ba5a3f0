/**
 * The whole drawing in a corner, with a frame round what is in view: drag it to move. Shown only when
 * there is more than fits. A very long drawing is squeezed, so that it stays a thing to point at.
 */
import type { Palette } from './palette';
import type { Bounds, PlacedScene } from './placed';
import { patternOf } from './marks';

const LARGEST = 150;
const SMALLEST = 34;

export class Minimap {
  readonly element = document.createElement('div');
  private readonly canvas = document.createElement('canvas');
  private readonly frame = document.createElement('div');
  private placed: PlacedScene | undefined;
  private palette: Palette | undefined;
  private scale = { x: 1, y: 1 };

  /** `onMove` is told the point of the drawing that is to be in the middle. */
  constructor(onMove: (x: number, y: number) => void) {
    this.element.className = 'minimap';
    // Everything it does the keyboard can do in the drawing itself.
    this.element.setAttribute('aria-hidden', 'true');
    this.frame.className = 'minimap-frame';
    this.element.append(this.canvas, this.frame);
    const move = (event: PointerEvent): void => {
      const box = this.canvas.getBoundingClientRect();
      onMove((event.clientX - box.left) / this.scale.x, (event.clientY - box.top) / this.scale.y);
    };
    this.element.addEventListener('pointerdown', (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.element.setPointerCapture(event.pointerId);
      move(event);
      this.element.addEventListener('pointermove', move);
      this.element.addEventListener(
        'pointerup',
        () => this.element.removeEventListener('pointermove', move),
        { once: true },
      );
    });
  }

  setScene(placed: PlacedScene, palette: Palette): void {
    if (placed === this.placed && palette === this.palette) return;
    this.placed = placed;
    this.palette = palette;
    const fit = LARGEST / Math.max(placed.width, placed.height, 1);
    const width = Math.max(SMALLEST, placed.width * fit);
    const height = Math.max(SMALLEST, placed.height * fit);
    this.scale = { x: width / Math.max(1, placed.width), y: height / Math.max(1, placed.height) };
    const density = devicePixelRatio || 1;
    this.canvas.width = Math.ceil(width * density);
    this.canvas.height = Math.ceil(height * density);
    this.canvas.style.width = `${Math.ceil(width)}px`;
    this.canvas.style.height = `${Math.ceil(height)}px`;
    const pen = this.canvas.getContext('2d');
    if (!pen) return;
    pen.setTransform(this.scale.x * density, 0, 0, this.scale.y * density, 0, 0);
    for (const item of [...placed.kernels, ...placed.leaves]) {
      const { accent } = palette.patterns[patternOf(item)];
      pen.globalAlpha = item.kind === 'kernel' ? 0.45 : 0.8;
      pen.fillStyle =
        item.kind === 'leaf' && item.leaf.pattern === undefined ? palette.edge : accent;
      pen.fillRect(item.x, item.y, item.width, Math.max(item.height, 0.6 / this.scale.y));
    }
  }

  /** What is in view, in the drawing's coordinates. */
  setView(view: Bounds): void {
    const { placed, scale } = this;
    if (!placed) return;
    const all =
      view.x <= 0 &&
      view.y <= 0 &&
      view.x + view.width >= placed.width &&
      view.y + view.height >= placed.height;
    this.element.hidden = all || placed.byId.size === 0;
    if (all) return;
    const left = Math.max(0, view.x) * scale.x;
    const top = Math.max(0, view.y) * scale.y;
    const right = Math.min(placed.width, view.x + view.width) * scale.x;
    const bottom = Math.min(placed.height, view.y + view.height) * scale.y;
    const { style } = this.frame;
    style.left = `${left}px`;
    style.top = `${top}px`;
    style.width = `${Math.max(4, right - left)}px`;
    style.height = `${Math.max(4, bottom - top)}px`;
  }
}
