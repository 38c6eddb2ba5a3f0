/** Where a drawing is looked at from: zoom and pan by d3, and the moves that the program makes. */
import * as d3 from 'd3';
import { MOVE_MS } from './elements';
import type { Bounds } from './placed';

export interface Transform {
  readonly x: number;
  readonly y: number;
  readonly k: number;
}

type Svg = d3.Selection<SVGSVGElement, unknown, null, undefined>;

const LEAST_ZOOM = 0.01;
const MOST_ZOOM = 4;
/** Room round what is shown as a whole; some more at the top, where the title is. */
export const MARGIN = 40;
const TOP = 16;

export class Camera {
  private readonly zoom: d3.ZoomBehavior<SVGSVGElement, unknown>;
  private readonly motion = matchMedia('(prefers-reduced-motion: reduce)');
  size = { width: 0, height: 0 };

  constructor(
    private readonly svg: Svg,
    private readonly element: SVGSVGElement,
    events: { readonly onMove: (transform: string) => void; readonly onRest: () => void },
  ) {
    this.zoom = d3
      .zoom<SVGSVGElement, unknown>()
      .scaleExtent([LEAST_ZOOM, MOST_ZOOM])
      .on('start', () => svg.classed('is-panning', true))
      .on('zoom', (event: d3.D3ZoomEvent<SVGSVGElement, unknown>) =>
        events.onMove(event.transform.toString()),
      )
      .on('end', () => {
        svg.classed('is-panning', false);
        events.onRest();
      });
    svg.call(this.zoom).on('dblclick.zoom', null);
  }

  get transform(): Transform {
    return d3.zoomTransform(this.element);
  }

  /** Nothing slides for people who don't want that. */
  get still(): boolean {
    return this.motion.matches;
  }

  /** True when the size changed; what was in the middle stays there. */
  resize(width: number, height: number): boolean {
    const before = this.size;
    if (width === before.width && height === before.height) return false;
    this.size = { width, height };
    this.svg.attr('width', width).attr('height', height);
    this.zoom.extent([
      [0, 0],
      [width, height],
    ]);
    if (before.width > 0 && width > 0) {
      const { x, y, k } = this.transform;
      this.moveTo({ x: x + (width - before.width) / 2, y, k });
    }
    return true;
  }

  moveTo({ x, y, k }: Transform, animate = false): void {
    const transform = d3.zoomIdentity.translate(x, y).scale(k);
    this.moving(animate).call((s) => this.zoom.transform(s, transform));
  }

  moveBy(dx: number, dy: number): void {
    const { x, y, k } = this.transform;
    this.moveTo({ x: x + dx * k, y: y + dy * k, k });
  }

  centreOn(x: number, y: number): void {
    this.svg.call((s) => this.zoom.translateTo(s, x, y));
  }

  zoomBy(factor: number): void {
    this.moving(true).call((s) => this.zoom.scaleBy(s, factor));
  }

  /** The whole of a drawing can always be zoomed out to. */
  allowWhole(width: number, height: number): void {
    const fit = this.fitZoom(width, height);
    this.zoom.scaleExtent([Math.max(0.001, Math.min(0.3, fit * 0.6)), MOST_ZOOM]);
  }

  fitZoom(width: number, height: number): number {
    return Math.min(
      1,
      (this.size.width - 2 * MARGIN) / Math.max(1, width),
      (this.size.height - 2 * MARGIN - TOP) / Math.max(1, height),
    );
  }

  /** Puts something in the middle, as big as it goes up to a zoom. */
  show(bounds: Bounds, most: number, animate: boolean): void {
    const { width, height } = this.size;
    if (width === 0) return;
    const k = Math.max(0.001, Math.min(most, this.fitZoom(bounds.width, bounds.height)));
    const x = width / 2 - (bounds.x + bounds.width / 2) * k;
    const y = (height + TOP) / 2 - (bounds.y + bounds.height / 2) * k;
    this.moveTo({ x, y, k }, animate);
  }

  /** What is in view, and more of it round about, in the drawing's coordinates. */
  viewport(more = 0): Bounds {
    const { x, y, k } = this.transform;
    const { width, height } = this.size;
    return {
      x: (-x - more * width) / k,
      y: (-y - more * height) / k,
      width: (width * (1 + 2 * more)) / k,
      height: (height * (1 + 2 * more)) / k,
    };
  }

  private moving(animate: boolean): Svg {
    // Both a selection and a transition can be given to the zoom behaviour.
    return animate && !this.still
      ? (this.svg.transition().duration(MOVE_MS) as unknown as Svg)
      : this.svg;
  }
}

export function boundsOf(items: readonly Bounds[]): Bounds {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of items) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export function covers(outer: Bounds, inner: Bounds): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    outer.x + outer.width >= inner.x + inner.width &&
    outer.y + outer.height >= inner.y + inner.height
  );
}
