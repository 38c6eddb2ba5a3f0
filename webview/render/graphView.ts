/**
 * One drawing on the page: an SVG with zoom, pan and keyboard, that holds only what can be seen.
 *
 * d3 joins the visible items by id, layer by layer; an item's marks are made anew only when they
 * differ. Items can have the focus (one of them is in the tab order), and the focused one is kept on
 * the page however far it is scrolled away.
 */
import * as d3 from 'd3';
import { Walker, type Step } from '../state/walk';
import { describe } from './describe';
import { kernelUs, type GraphIndex, type Times } from './graphIndex';
import { hit, intersects, visibleItems, type Visible } from './lod';
import {
  edgeMarks,
  kernelMarks,
  leafMarks,
  overlayMarks,
  patternOf,
  routePath,
  type Mark,
  type MarkContext,
} from './marks';
import { MOVE_MS, patchMarks } from './elements';
import { Minimap } from './minimap';
import type { Palette } from './palette';
import type { Bounds, PlacedItem, PlacedScene } from './placed';
import type { Highlight } from '../state/selection';

export interface Look {
  readonly index: GraphIndex;
  readonly times: Times | undefined;
  readonly heat: boolean;
  readonly palette: Palette;
}

export interface GraphViewEvents {
  readonly onSelect: (item: PlacedItem | undefined) => void;
  /** Double click, or Enter on what is selected: show it in the editor. */
  readonly onOpen: (item: PlacedItem) => void;
  readonly onFold: (kernel: string) => void;
  readonly onTransform: (transform: { x: number; y: number; k: number }) => void;
}

type ItemGroup = d3.Selection<SVGGElement, unknown, null, undefined>;

const MARGIN = 40;
/** More items than this appear at once rather than slide. */
const ANIMATE_LIMIT = 700;

const NO_HIGHLIGHT: Highlight = { selected: new Set(), related: new Set() };

export class GraphView {
  readonly element: SVGSVGElement;
  private readonly svg: d3.Selection<SVGSVGElement, unknown, null, undefined>;
  private readonly world: ItemGroup;
  private readonly layers: Record<'bulk' | 'kernels' | 'edges' | 'leaves' | 'overlay', ItemGroup>;
  private readonly zoom: d3.ZoomBehavior<SVGSVGElement, unknown>;
  private readonly motion = matchMedia('(prefers-reduced-motion: reduce)');
  private placed: PlacedScene | undefined;
  private walker: Walker | undefined;
  private look: Look | undefined;
  private highlight = NO_HIGHLIGHT;
  private matches: ReadonlySet<string> | undefined;
  private totalUs = 0;
  private focusId: string | undefined;
  private size = { width: 0, height: 0 };
  /** What has been drawn covers this, at this zoom. */
  private drawn: { bounds: Bounds; k: number; visible: Visible } | undefined;
  private frame = 0;
  private pendingTransform: { x: number; y: number; k: number } | undefined;
  private placedOnce = false;
  private readonly resize: ResizeObserver;
  private readonly minimap = new Minimap((x, y) => {
    this.svg.call((s) => this.zoom.translateTo(s, x, y));
  });

  constructor(
    private readonly parent: HTMLElement,
    label: string,
    private readonly events: GraphViewEvents,
  ) {
    this.svg = d3
      .select(parent)
      .append('svg')
      .attr('class', 'graph')
      .attr('role', 'application')
      .attr('aria-roledescription', 'graph')
      .attr('aria-label', label);
    const node = this.svg.node();
    if (!node) throw new Error('The drawing has no place.');
    this.element = node;
    this.world = this.svg.append('g').attr('class', 'world');
    const layer = (name: string): ItemGroup =>
      this.world.append('g').attr('class', `layer-${name}`);
    this.layers = {
      bulk: layer('bulk').attr('aria-hidden', 'true'),
      kernels: layer('kernels'),
      edges: layer('edges'),
      leaves: layer('leaves'),
      overlay: layer('overlay').attr('aria-hidden', 'true'),
    };
    this.zoom = d3
      .zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.01, 4])
      .on('start', () => this.svg.classed('is-panning', true))
      .on('zoom', (event: d3.D3ZoomEvent<SVGSVGElement, unknown>) => {
        this.world.attr('transform', event.transform.toString());
        this.minimap.setView(this.viewport(0));
        this.requestDraw();
      })
      .on('end', () => {
        this.svg.classed('is-panning', false);
        const { x, y, k } = this.transform;
        this.events.onTransform({ x, y, k });
      });
    this.svg.call(this.zoom).on('dblclick.zoom', null);
    this.svg.on('click', (event: MouseEvent) => this.click(event));
    this.svg.on('dblclick', (event: MouseEvent) => {
      const item = this.itemAt(event);
      if (item) this.events.onOpen(item);
    });
    this.svg.on('keydown', (event: KeyboardEvent) => this.key(event));
    this.svg.on('focusin', (event: FocusEvent) => {
      const id = idOf(event.target);
      if (id !== undefined) this.setFocusId(id);
    });
    parent.append(this.minimap.element);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(parent);
    this.measure();
  }

  dispose(): void {
    this.resize.disconnect();
    cancelAnimationFrame(this.frame);
    this.svg.interrupt().remove();
    this.minimap.element.remove();
  }

  private get transform(): d3.ZoomTransform {
    return d3.zoomTransform(this.element);
  }

  private measure(): void {
    const { clientWidth: width, clientHeight: height } = this.parent;
    if (width === this.size.width && height === this.size.height) return;
    const before = this.size;
    this.size = { width, height };
    this.svg.attr('width', width).attr('height', height);
    this.zoom.extent([
      [0, 0],
      [width, height],
    ]);
    if (this.placed && !this.placedOnce && width > 0) this.firstView();
    else if (this.placedOnce && before.width > 0 && width > 0) {
      // What was in the middle stays there.
      const { x, y, k } = this.transform;
      const moved = d3.zoomIdentity.translate(x + (width - before.width) / 2, y).scale(k);
      this.svg.call((s) => this.zoom.transform(s, moved));
    }
    this.minimap.setView(this.viewport(0));
    this.drawn = undefined;
    this.requestDraw();
  }

  setLabel(label: string): void {
    this.svg.attr('aria-label', label);
  }

  /** Where to look first, instead of the default. */
  restore(transform: { x: number; y: number; k: number } | undefined): void {
    this.pendingTransform = transform;
  }

  setScene(placed: PlacedScene, look: Look): void {
    const before = this.placed;
    this.placed = placed;
    this.look = look;
    this.walker = undefined;
    this.totalUs = sumUs(placed, look.times);
    this.drawn = undefined;
    this.minimap.setScene(placed, look.palette);
    this.minimap.setView(this.viewport(0));
    if (this.focusId !== undefined && !placed.byId.has(this.focusId)) this.focusId = undefined;
    this.zoom.scaleExtent([Math.min(0.3, this.fitZoom() * 0.6), 4]);
    if (!this.placedOnce) {
      if (this.size.width > 0) this.firstView();
      this.draw(false);
      return;
    }
    if (before) this.holdStill(before, placed);
    this.draw(before !== undefined);
  }

  setLook(look: Look): void {
    this.look = look;
    if (this.placed) {
      this.totalUs = sumUs(this.placed, look.times);
      this.minimap.setScene(this.placed, look.palette);
    }
    this.drawn = undefined;
    this.requestDraw();
  }

  setHighlight(highlight: Highlight, matches: ReadonlySet<string> | undefined): void {
    this.highlight = highlight;
    this.matches = matches;
    this.drawn = undefined;
    this.requestDraw();
  }

  private firstView(): void {
    this.placedOnce = true;
    const { placed, size, pendingTransform } = this;
    if (!placed) return;
    if (pendingTransform) {
      const { x, y, k } = pendingTransform;
      this.svg.call((s) => this.zoom.transform(s, d3.zoomIdentity.translate(x, y).scale(k)));
      const view = this.viewport(0);
      const items = [...placed.leaves, ...placed.kernels];
      // The graph may have changed so much since that nothing is there any more.
      if (items.some((item) => intersects(item, view))) return;
    }
    // A drawing that would be unreadable as a whole starts at its top, unless it is huge.
    const fit = this.fitZoom();
    const readable = Math.min(1, Math.max(0.66, (size.width - 2 * MARGIN) / (placed.width || 1)));
    const huge = placed.leaves.length + placed.kernels.length > 300;
    // As a whole, a chain of thousands would be a hair.
    const hair = Math.min(placed.width, placed.height) * fit < 60;
    if (fit >= 0.6 || (huge && !hair)) this.fit(false);
    else {
      const start = placed.leaves.find(({ leaf }) => leaf.kind === 'input') ?? placed.kernels[0];
      const middle = start ? start.x + start.width / 2 : placed.width / 2;
      const wide = placed.width * readable > size.width - MARGIN;
      const x = size.width / 2 - (wide ? middle : placed.width / 2) * readable;
      const transform = d3.zoomIdentity.translate(x, MARGIN + 8).scale(readable);
      this.svg.call((s) => this.zoom.transform(s, transform));
    }
  }

  /** An item that was in view stays where it was, though everything is laid out anew. */
  private holdStill(before: PlacedScene, after: PlacedScene): void {
    const { x, y, k } = this.transform;
    const centre = { x: (this.size.width / 2 - x) / k, y: (this.size.height / 2 - y) / k };
    const anchor = (item: PlacedItem): boolean => item.kind !== 'edge' && after.byId.has(item.id);
    const away = (item: Bounds): number =>
      Math.hypot(item.x + item.width / 2 - centre.x, item.y - centre.y);
    const wanted = [...this.highlight.selected, this.focusId ?? '']
      .map((id) => before.byId.get(id))
      .find((item) => item !== undefined && anchor(item));
    let held = wanted;
    if (!held)
      for (const item of [...before.leaves, ...before.kernels])
        if (anchor(item) && (!held || away(item) < away(held))) held = item;
    const to = held && after.byId.get(held.id);
    if (!held || !to) return;
    const dx = held.x + held.width / 2 - (to.x + to.width / 2);
    const dy = held.y - to.y;
    this.svg.call((s) => this.zoom.transform(s, this.transform.translate(dx, dy)));
  }

  private fitZoom(): number {
    const { width, height } = this.placed ?? { width: 1, height: 1 };
    return Math.min(
      1,
      (this.size.width - 2 * MARGIN) / Math.max(1, width),
      (this.size.height - 2 * MARGIN - 16) / Math.max(1, height),
    );
  }

  fit(animate = true): void {
    if (!this.placed) return;
    this.show({ x: 0, y: 0, width: this.placed.width, height: this.placed.height }, 1, animate);
  }

  zoomBy(factor: number): void {
    this.moving(true).call((s) => this.zoom.scaleBy(s, factor));
  }

  /** Brings items into view; zooms in only if they couldn't be read. */
  reveal(ids: Iterable<string>): void {
    const items = [...ids]
      .map((id) => this.placed?.byId.get(id))
      .filter((item) => item !== undefined);
    if (items.length === 0) return;
    const x = Math.min(...items.map((item) => item.x));
    const y = Math.min(...items.map((item) => item.y));
    const bounds = {
      x,
      y,
      width: Math.max(...items.map((item) => item.x + item.width)) - x,
      height: Math.max(...items.map((item) => item.y + item.height)) - y,
    };
    const view = this.viewport(0);
    const inside =
      bounds.x >= view.x &&
      bounds.y >= view.y &&
      bounds.x + bounds.width <= view.x + view.width &&
      bounds.y + bounds.height <= view.y + view.height;
    if (inside && this.transform.k >= 0.5) return;
    this.show(bounds, Math.max(0.8, Math.min(1, this.transform.k)), true);
  }

  private show(bounds: Bounds, most: number, animate: boolean): void {
    const { width, height } = this.size;
    if (width === 0) return;
    const k = Math.max(
      0.01,
      Math.min(
        most,
        (width - 2 * MARGIN) / Math.max(1, bounds.width),
        (height - 2 * MARGIN - 16) / Math.max(1, bounds.height),
      ),
    );
    const x = width / 2 - (bounds.x + bounds.width / 2) * k;
    const y = (height + 16) / 2 - (bounds.y + bounds.height / 2) * k;
    const transform = d3.zoomIdentity.translate(x, y).scale(k);
    this.moving(animate).call((s) => this.zoom.transform(s, transform));
  }

  private moving(animate: boolean): d3.Selection<SVGSVGElement, unknown, null, undefined> {
    // Both a selection and a transition can be given to the zoom behaviour.
    return animate && !this.motion.matches
      ? (this.svg.transition().duration(MOVE_MS) as unknown as typeof this.svg)
      : this.svg;
  }

  private viewport(margin: number): Bounds {
    const { x, y, k } = this.transform;
    const { width, height } = this.size;
    return {
      x: (-x - margin * width) / k,
      y: (-y - margin * height) / k,
      width: (width * (1 + 2 * margin)) / k,
      height: (height * (1 + 2 * margin)) / k,
    };
  }

  private requestDraw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(false);
    });
  }

  private draw(animate: boolean): void {
    const { placed, look } = this;
    if (!placed || !look || this.size.width === 0) return;
    const { k } = this.transform;
    const view = this.viewport(0);
    const { drawn } = this;
    if (drawn && covers(drawn.bounds, view) && sameDetail(drawn.k, k)) return;
    const bounds = this.viewport(0.4);
    const visible = visibleItems(placed, bounds, k);
    this.drawn = { bounds, k, visible };
    const bulk = visible.detail === 'bulk';
    this.svg.attr('data-detail', visible.detail);
    this.drawBulk(bulk ? visible : undefined);
    const keep = (item: PlacedItem): boolean => !bulk || this.isMarked(item.id);
    const withFocus = <T extends PlacedItem>(
      items: readonly T[],
      kind: T['kind'],
    ): readonly T[] => {
      const focused = this.focusId === undefined ? undefined : placed.byId.get(this.focusId);
      const chosen = items.filter(keep);
      return focused?.kind === kind && !chosen.some(({ id }) => id === focused.id)
        ? [...chosen, focused as T]
        : chosen;
    };
    const context: MarkContext = {
      detail: bulk ? 'far' : visible.detail === 'far' ? 'far' : 'near',
      heat: look.heat,
      totalUs: this.totalUs,
      ...(look.times ? { times: look.times } : {}),
    };
    const kernels = withFocus(visible.kernels, 'kernel');
    const leaves = withFocus(visible.leaves, 'leaf');
    const edges = withFocus(visible.edges, 'edge');
    const slide =
      animate &&
      !this.motion.matches &&
      kernels.length + leaves.length + edges.length < ANIMATE_LIMIT;
    this.join(this.layers.kernels, kernels, (item) => kernelMarks(item, context), slide);
    this.join(this.layers.edges, edges, (item) => edgeMarks(item, context), slide);
    this.join(this.layers.leaves, leaves, (item) => leafMarks(item, context), slide);
    const overlay = edges.filter(
      (edge) =>
        visible.labels.has(edge.id) ||
        edge.edge.rejected !== undefined ||
        edge.route.kind === 'stub' ||
        (context.detail === 'near' && this.isMarked(edge.id)),
    );
    this.join(
      this.layers.overlay,
      overlay,
      (item) =>
        overlayMarks(item, {
          ...context,
          label: visible.labels.has(item.id) || (k > 0.5 && this.highlight.selected.has(item.id)),
        }),
      false,
    );
    this.applyTabOrder();
  }

  private isMarked(id: string): boolean {
    return (
      this.highlight.selected.has(id) ||
      this.highlight.related.has(id) ||
      this.matches?.has(id) === true
    );
  }

  private join<T extends PlacedItem>(
    layer: ItemGroup,
    items: readonly T[],
    marks: (item: T) => readonly Mark[],
    slide: boolean,
  ): void {
    const searching = this.matches !== undefined;
    const overlay = layer === this.layers.overlay;
    const groups = layer
      .selectAll<SVGGElement, T>('g.item')
      .data([...items], ({ id }) => id)
      .join(
        (enter) => {
          const added = enter.append('g').attr('class', 'item');
          if (slide) {
            added.attr('opacity', 0).transition().duration(MOVE_MS).attr('opacity', 1);
          }
          return added;
        },
        (update) => update,
        (exit) => exit.remove(),
      );
    groups.each((item, i, nodes) => {
      const g = nodes[i];
      if (!g) return;
      const { selected, related } = this.highlight;
      const classes = [
        'item',
        `item-${item.kind}`,
        `p-${item.kind === 'edge' ? 'single' : patternOf(item)}`,
        ...(selected.has(item.id) ? ['is-selected'] : []),
        ...(related.has(item.id) ? ['is-related'] : []),
        ...(searching && this.matches?.has(item.id) ? ['is-match'] : []),
        ...(searching && !this.matches?.has(item.id) ? ['is-dim'] : []),
      ];
      g.setAttribute('class', classes.join(' '));
      if (!overlay) this.label(g, item);
      else g.dataset['id'] = item.id;
      patchMarks(g, marks(item), slide, overlay ? undefined : item);
      if (item.kind === 'edge') return;
      const place = `translate(${item.x},${item.y})`;
      if (slide && g.hasAttribute('transform'))
        d3.select(g).transition('move').duration(MOVE_MS).attr('transform', place);
      else g.setAttribute('transform', place);
    });
    // The order in the document is the order of the drawing, whatever was added when.
    groups.order();
  }

  private label(g: SVGGElement, item: PlacedItem): void {
    const { look } = this;
    if (!look) return;
    if (g.dataset['id'] !== item.id) {
      g.dataset['id'] = item.id;
      g.setAttribute('tabindex', '-1');
    }
    g.setAttribute('role', item.kind === 'kernel' && !item.box.solo ? 'group' : 'img');
    g.setAttribute('aria-label', describe(item, look.index, look.times));
    if (this.highlight.selected.has(item.id)) g.setAttribute('aria-current', 'true');
    else g.removeAttribute('aria-current');
  }

  /** Everything at once: one path per colour. */
  private drawBulk(visible: Visible | undefined): void {
    const paths = new Map<string, { mark: string; pattern: string; d: string[] }>();
    const add = (mark: string, pattern: string, d: string): void => {
      const key = `${mark}/${pattern}`;
      const path = paths.get(key) ?? { mark, pattern, d: [] };
      path.d.push(d);
      paths.set(key, path);
    };
    if (visible) {
      for (const { route, edge } of visible.edges)
        add(
          edge.rejected === undefined ? 'bulk-edge' : 'edge-rejected',
          'single',
          routePath(route),
        );
      for (const item of visible.kernels) add('bulk-kernel', patternOf(item), boxPath(item));
      for (const item of visible.leaves)
        add(
          item.leaf.pattern === undefined ? 'bulk-leaf' : 'bulk-kernel',
          patternOf(item),
          boxPath(item),
        );
    }
    this.layers.bulk
      .selectAll<SVGPathElement, [string, { mark: string; pattern: string; d: string[] }]>('path')
      .data([...paths], ([key]) => key)
      .join('path')
      .attr('class', ([, { mark, pattern }]) => `${mark} p-${pattern}`)
      .attr('d', ([, { d }]) => d.join(''))
      .attr('vector-effect', 'non-scaling-stroke');
  }

  // -------------------------------------------------------------------------------------------
  // Pointer and keyboard

  private itemAt(event: MouseEvent): PlacedItem | undefined {
    const id = idOf(event.target);
    const direct = id === undefined ? undefined : this.placed?.byId.get(id);
    if (direct && direct.kind !== 'kernel') return direct;
    const [px, py] = d3.pointer(event, this.element);
    const { x, y, k } = this.transform;
    const found = this.placed && hit(this.placed, (px - x) / k, (py - y) / k, 6 / k);
    return found ?? direct;
  }

  private click(event: MouseEvent): void {
    const target = event.target;
    const item = this.itemAt(event);
    if (
      target instanceof Element &&
      target.closest('[data-action="fold"]') &&
      item?.kind === 'kernel'
    ) {
      this.events.onFold(item.id);
      return;
    }
    if (item) this.setFocusId(item.id);
    this.events.onSelect(item);
    // Keyboard use goes on from here.
    if (item) this.focusElement(item.id);
  }

  private setFocusId(id: string): void {
    if (this.focusId === id) return;
    this.focusId = id;
    this.applyTabOrder();
  }

  private applyTabOrder(): void {
    const start =
      this.focusId ?? this.drawn?.visible.leaves[0]?.id ?? this.drawn?.visible.kernels[0]?.id;
    for (const g of this.element.querySelectorAll<SVGGElement>('g.item[tabindex="0"]'))
      if (g.dataset['id'] !== start) g.setAttribute('tabindex', '-1');
    if (start !== undefined) this.groupOf(start)?.setAttribute('tabindex', '0');
    // In bulk nothing is on the page yet: the drawing itself takes the focus.
    this.svg.attr('tabindex', start !== undefined && this.groupOf(start) ? null : 0);
  }

  private groupOf(id: string): SVGGElement | undefined {
    for (const layer of [this.layers.leaves, this.layers.kernels, this.layers.edges])
      for (const g of layer.node()?.children ?? [])
        if (g instanceof SVGGElement && g.dataset['id'] === id) return g;
    return undefined;
  }

  private focusElement(id: string): void {
    if (!this.groupOf(id)) {
      this.drawn = undefined;
      this.draw(false);
    }
    this.groupOf(id)?.focus({ preventScroll: true });
  }

  /** Moves the keyboard's focus to an item and shows it. */
  focusItem(id: string): void {
    this.setFocusId(id);
    this.reveal([id]);
    this.focusElement(id);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey) return;
    const step = stepOf(event);
    const handled = step ? this.walk(step) : this.command(event.key);
    if (!handled) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private walk(step: Step): boolean {
    const { placed } = this;
    if (!placed) return false;
    this.walker ??= new Walker(placed);
    const next =
      this.focusId === undefined ? this.walker.first() : this.walker.next(this.focusId, step);
    if (next !== undefined) this.focusItem(next);
    return true;
  }

  private command(key: string): boolean {
    const item = this.focusId === undefined ? undefined : this.placed?.byId.get(this.focusId);
    switch (key) {
      case 'Enter':
        if (!item) return false;
        if (this.highlight.selected.has(item.id)) this.events.onOpen(item);
        else this.events.onSelect(item);
        return true;
      case ' ':
        if (item?.kind === 'kernel' && !item.box.solo) this.events.onFold(item.id);
        else if (item) this.events.onSelect(item);
        return item !== undefined;
      case 'Escape':
        this.events.onSelect(undefined);
        return true;
      case '+':
      case '=':
        this.zoomBy(1.3);
        return true;
      case '-':
        this.zoomBy(1 / 1.3);
        return true;
      case '0':
        this.fit();
        return true;
      default:
        return false;
    }
  }
}

function stepOf(event: KeyboardEvent): Step | undefined {
  switch (event.key) {
    case 'ArrowDown':
      return event.altKey ? 'into' : event.shiftKey ? 'edgeDown' : 'down';
    case 'ArrowUp':
      return event.altKey ? 'outOf' : event.shiftKey ? 'edgeUp' : 'up';
    case 'ArrowLeft':
      return 'left';
    case 'ArrowRight':
      return 'right';
    default:
      return undefined;
  }
}

function idOf(target: EventTarget | null): string | undefined {
  if (!(target instanceof Element)) return undefined;
  const group = target.closest('g.item');
  return group instanceof SVGGElement ? group.dataset['id'] : undefined;
}

function boxPath({ x, y, width, height }: Bounds): string {
  return `M${x},${y}h${width}v${height}h${-width}Z`;
}

function covers(outer: Bounds, inner: Bounds): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    outer.x + outer.width >= inner.x + inner.width &&
    outer.y + outer.height >= inner.y + inner.height
  );
}

/** Zooming a little needs no new drawing, unless a level of detail begins there. */
function sameDetail(a: number, b: number): boolean {
  const level = (k: number): number => (k >= 0.62 ? 3 : k >= 0.5 ? 2 : k >= 0.45 ? 1 : 0);
  return level(a) === level(b) && Math.abs(Math.log2(a / b)) < 0.8;
}

function sumUs(placed: PlacedScene, times: Times | undefined): number {
  return placed.kernels.reduce((sum, { box }) => sum + kernelUs(box.kernel, times), 0);
}
