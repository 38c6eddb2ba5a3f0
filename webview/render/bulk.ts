/** The picture of very many items: one path per colour, which costs a handful of elements. */
import type * as d3 from 'd3';
import type { Visible } from './lod';
import { patternOf, routePath } from './marks';
import type { Bounds } from './placed';

interface BulkPath {
  readonly mark: string;
  readonly pattern: string;
  readonly pieces: string[];
}

/** `visible` is undefined where items are drawn by themselves. */
export function drawBulk(
  layer: d3.Selection<SVGGElement, unknown, null, undefined>,
  visible: Visible | undefined,
): void {
  layer
    .selectAll<SVGPathElement, readonly [string, BulkPath]>('path')
    .data([...(visible ? bulkPaths(visible) : [])], ([key]) => key)
    .join('path')
    .attr('class', ([, { mark, pattern }]) => `${mark} p-${pattern}`)
    .attr('d', ([, { pieces }]) => pieces.join(''))
    .attr('vector-effect', 'non-scaling-stroke');
}

function bulkPaths({ kernels, leaves, edges }: Visible): ReadonlyMap<string, BulkPath> {
  const paths = new Map<string, BulkPath>();
  const add = (mark: string, pattern: string, d: string): void => {
    const key = `${mark}/${pattern}`;
    const path = paths.get(key) ?? { mark, pattern, pieces: [] };
    path.pieces.push(d);
    paths.set(key, path);
  };
  for (const { route, edge } of edges)
    add(edge.rejected === undefined ? 'bulk-edge' : 'edge-rejected', 'single', routePath(route));
  for (const item of kernels) add('bulk-kernel', patternOf(item), boxPath(item));
  for (const item of leaves)
    add(
      item.leaf.pattern === undefined ? 'bulk-leaf' : 'bulk-kernel',
      patternOf(item),
      boxPath(item),
    );
  return paths;
}

function boxPath({ x, y, width, height }: Bounds): string {
  return `M${x},${y}h${width}v${height}h${-width}Z`;
}
