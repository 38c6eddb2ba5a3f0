/** Marks as elements of the page: made, and changed in place where their kinds stay the same. */
import * as d3 from 'd3';
import type { PlacedFrame } from './frames';
import { frameMarks, routePath, type Mark } from './marks';
import type { PlacedEdge, PlacedItem } from './placed';

const SVG = 'http://www.w3.org/2000/svg';
/** How long things take to slide to their new place. */
export const MOVE_MS = 280;

function tooltipOf(item: PlacedItem): string {
  switch (item.kind) {
    case 'kernel':
      return item.box.tooltip;
    case 'leaf':
      return item.leaf.tooltip;
    case 'edge': {
      const { edge } = item;
      const why = edge.decisions.find(({ fused, verdicts }) => !fused && verdicts.length > 0);
      return [
        `${edge.fromName} → ${edge.toName}`,
        edge.label,
        edge.rejected === undefined ? '' : `${edge.rejected}: ${why?.verdicts[0]?.message ?? ''}`,
      ]
        .filter(Boolean)
        .join('\n');
    }
  }
}

/** The frames of branches and loops, behind everything else. */
export function drawFrames(
  layer: d3.Selection<SVGGElement, unknown, null, undefined>,
  frames: readonly PlacedFrame[],
): void {
  layer
    .selectAll<SVGGElement, PlacedFrame>('g.frame')
    .data([...frames], ({ id }) => id)
    .join((enter) => enter.append('g').attr('class', 'frame'))
    .attr('transform', ({ x, y }) => `translate(${x},${y})`)
    .each((frame, i, nodes) => {
      const g = nodes[i];
      if (g) patchMarks(g, frameMarks(frame), false, undefined);
    });
}

/** Changes a group's elements into these marks; in place where they are of the same kinds. */
export function patchMarks(
  g: SVGGElement,
  marks: readonly Mark[],
  slide: boolean,
  item: PlacedItem | undefined,
): void {
  const signature = marks.map(({ tag, mark }) => `${tag}.${mark}`).join(' ');
  const content = JSON.stringify(marks);
  if (g.dataset['content'] === content) return;
  g.dataset['content'] = content;
  if (g.dataset['signature'] === signature) {
    const children = g.querySelectorAll<SVGElement>(':scope > .mark');
    marks.forEach((mark, i) => {
      const element = children[i];
      if (!element) return;
      if (mark.text !== undefined) element.textContent = mark.text;
      for (const [name, value] of Object.entries(mark.at)) {
        if (element.getAttribute(name) === String(value)) continue;
        if (slide && name !== 'transform')
          d3.select(element).transition(name).duration(MOVE_MS).attr(name, value);
        else element.setAttribute(name, String(value));
      }
    });
    if (item?.kind === 'edge') {
      const area = g.querySelector(':scope > .edge-hit');
      area?.setAttribute('d', routePath(item.route));
    }
  } else {
    g.dataset['signature'] = signature;
    g.replaceChildren(...marks.map(makeMark));
    if (item?.kind === 'edge') g.prepend(hitArea(item));
  }
  if (!item) return;
  let title = g.querySelector(':scope > title');
  if (!title) {
    title = document.createElementNS(SVG, 'title');
    g.prepend(title);
  }
  title.textContent = tooltipOf(item);
}

/** A line is too thin to click on. */
function hitArea({ route }: PlacedEdge): SVGElement {
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('class', 'edge-hit');
  path.setAttribute('d', routePath(route));
  return path;
}

function makeMark({ tag, mark, at, text, action }: Mark): SVGElement {
  const element = document.createElementNS(SVG, tag);
  element.setAttribute('class', `mark ${mark}`);
  for (const [name, value] of Object.entries(at)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  if (action !== undefined) element.dataset['action'] = action;
  return element;
}
