/**
 * One drawing on the page: an SVG with zoom, pan and keyboard, that holds only what can be seen.
 *
 * d3 joins the visible items by id, layer by layer; an item's marks are made anew only when they
 * differ. Items can have the focus (one of them is in the tab order), and the focused one is kept on
 * the page however far it is scrolled away.
 */
import * as d3 from 'd3';
import { drawBulk } from './bulk';
import { boundsOf, Camera, covers, MARGIN, type Transform } from './camera';
import { commandOf, type Command } from './keys';
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
  type Mark,
  type MarkContext,
} from './marks';
import { drawFrames, MOVE_MS, patchMarks } from './elements';
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
  readonly onTransform: (transform: Transform) => void;
}

type ItemGroup = d3.Selection<SVGGElement, unknown, null, undefined>;

/** More items than this appear at once rather than slide. */
const ANIMATE_LIMIT = 700;

const NO_HIGHLIGHT: Highlight = { selected: new Set(), related: new Set() };

export class GraphView {
  readonly element: SVGSVGElement;
  private readonly svg: d3.Selection<SVGSVGElement, unknown, null, undefined>;
  private readonly world: ItemGroup;
  private readonly frames: ItemGroup;
  private readonly layers: Record<'bulk' | 'kernels' | 'edges' | 'leaves' | 'overlay', ItemGroup>;
  private readonly camera: Camera;
  private placed: PlacedScene | undefined;
  /** Where the first view was; undefined when it was a restored one. */
  private home: Transform | undefined;
  private walker: Walker | undefined;
  private look: Look | undefined;
  private highlight = NO_HIGHLIGHT;
  private matches: ReadonlySet<string> | undefined;
  private totalUs = 0;
  private focusId: string | undefined;
  /** What has been drawn covers this, at this zoom. */
  private drawn: { bounds: Bounds; k: number; visible: Visible } | undefined;
  private frame = 0;
  private pendingTransform: Transform | undefined;
  private placedOnce = false;
  private readonly resize: ResizeObserver;
  private readonly minimap = new Minimap((x, y) => {
    this.camera.centreOn(x, y);
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
    this.frames = layer('frames').attr('aria-hidden', 'true');
    this.layers = {
      bulk: layer('bulk').attr('aria-hidden', 'true'),
      kernels: layer('kernels'),
      edges: layer('edges'),
      leaves: layer('leaves'),
      overlay: layer('overlay').attr('aria-hidden', 'true'),
    };
    this.camera = new Camera(this.svg, node, {
      onMove: (transform) => {
        this.world.attr('transform', transform);
        this.minimap.setView(this.camera.viewport());
        this.requestDraw();
      },
      onRest: () => {
        const { x, y, k } = this.camera.transform;
        this.events.onTransform({ x, y, k });
      },
    });
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

  private measure(): void {
    // Who hasn't moved the drawing yet sees its beginning in the new room too.
    const atHome = this.home !== undefined && sameTransform(this.home, this.camera.transform);
    if (!this.camera.resize(this.parent.clientWidth, this.parent.clientHeight)) return;
    if (this.placed && (atHome || !this.placedOnce) && this.camera.size.width > 0) this.firstView();
    this.minimap.setView(this.camera.viewport());
    this.drawn = undefined;
    this.requestDraw();
  }

  setLabel(label: string): void {
    this.svg.attr('aria-label', label);
  }

  /** Where to look first, instead of the default. */
  restore(transform: Transform | undefined): void {
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
    this.minimap.setView(this.camera.viewport());
    if (this.focusId !== undefined && !placed.byId.has(this.focusId)) this.focusId = undefined;
    this.camera.allowWhole(placed.width, placed.height);
    if (!this.placedOnce) {
      if (this.camera.size.width > 0) this.firstView();
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
    const { placed, camera, pendingTransform } = this;
    const { size } = camera;
    if (!placed) return;
    this.pendingTransform = undefined;
    this.home = undefined;
    if (pendingTransform) {
      camera.moveTo(pendingTransform);
      const view = camera.viewport();
      const items = [...placed.leaves, ...placed.kernels];
      // The graph may have changed so much since that nothing is there any more.
      if (items.some((item) => intersects(item, view))) return;
    }
    // A drawing that would be unreadable as a whole starts at its top, unless it is huge.
    const fit = camera.fitZoom(placed.width, placed.height);
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
      camera.moveTo({ x, y: MARGIN + 8, k: readable });
    }
    const { x, y, k } = camera.transform;
    this.home = { x, y, k };
  }

  /** An item that was in view stays where it was, though everything is laid out anew. */
  private holdStill(before: PlacedScene, after: PlacedScene): void {
    const view = this.camera.viewport();
    const centre = { x: view.x + view.width / 2, y: view.y + view.height / 2 };
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
    this.camera.moveBy(held.x + held.width / 2 - (to.x + to.width / 2), held.y - to.y);
  }

  fit(animate = true): void {
    if (!this.placed) return;
    const { width, height } = this.placed;
    this.camera.show({ x: 0, y: 0, width, height }, 1, animate);
  }

  zoomBy(factor: number): void {
    this.camera.zoomBy(factor);
  }

  /** Brings items into view; zooms in only if they couldn't be read. */
  reveal(ids: Iterable<string>): void {
    const items = [...ids]
      .map((id) => this.placed?.byId.get(id))
      .filter((item) => item !== undefined);
    if (items.length === 0) return;
    const bounds = boundsOf(items);
    const { k } = this.camera.transform;
    if (k >= 0.5 && covers(this.camera.viewport(), bounds)) return;
    this.camera.show(bounds, Math.max(0.8, Math.min(1, k)), true);
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
    if (!placed || !look || this.camera.size.width === 0) return;
    const { k } = this.camera.transform;
    const view = this.camera.viewport();
    const { drawn } = this;
    if (drawn && covers(drawn.bounds, view) && sameDetail(drawn.k, k)) return;
    const bounds = this.camera.viewport(0.4);
    const visible = visibleItems(placed, bounds, k);
    this.drawn = { bounds, k, visible };
    const bulk = visible.detail === 'bulk';
    this.svg.attr('data-detail', visible.detail);
    drawFrames(this.frames, placed.frames);
    drawBulk(this.layers.bulk, bulk ? visible : undefined);
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
      !this.camera.still &&
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

  // -------------------------------------------------------------------------------------------
  // Pointer and keyboard

  private itemAt(event: MouseEvent): PlacedItem | undefined {
    const id = idOf(event.target);
    const direct = id === undefined ? undefined : this.placed?.byId.get(id);
    if (direct && direct.kind !== 'kernel') return direct;
    const [px, py] = d3.pointer(event, this.element);
    const { x, y, k } = this.camera.transform;
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
    const command = commandOf(event);
    if (!command || !this.obey(command)) return;
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

  /** False when there was nothing to do it with. */
  private obey(command: Command): boolean {
    const item = this.focusId === undefined ? undefined : this.placed?.byId.get(this.focusId);
    switch (command.kind) {
      case 'walk':
        return this.walk(command.step);
      case 'choose':
        if (!item) return false;
        if (this.highlight.selected.has(item.id)) this.events.onOpen(item);
        else this.events.onSelect(item);
        return true;
      case 'fold':
        if (!item) return false;
        if (item.kind === 'kernel' && !item.box.solo) this.events.onFold(item.id);
        else this.events.onSelect(item);
        return true;
      case 'clear':
        this.events.onSelect(undefined);
        return true;
      case 'zoom':
        this.zoomBy(command.factor);
        return true;
      case 'fit':
        this.fit();
        return true;
    }
  }
}

function idOf(target: EventTarget | null): string | undefined {
  if (!(target instanceof Element)) return undefined;
  const group = target.closest('g.item');
  return group instanceof SVGGElement ? group.dataset['id'] : undefined;
}

function sameTransform(a: Transform, b: Transform): boolean {
  return Math.abs(a.x - b.x) < 0.5 && Math.abs(a.y - b.y) < 0.5 && a.k === b.k;
}

/** Zooming a little needs no new drawing, unless a level of detail begins there. */
function sameDetail(a: number, b: number): boolean {
  const level = (k: number): number => (k >= 0.62 ? 3 : k >= 0.5 ? 2 : k >= 0.45 ? 1 : 0);
  return level(a) === level(b) && Math.abs(Math.log2(a / b)) < 0.8;
}

function sumUs(placed: PlacedScene, times: Times | undefined): number {
  return placed.kernels.reduce((sum, { box }) => sum + kernelUs(box.kernel, times), 0);
}
