/**
 * Frames: around what belongs to one body of a branch or a loop, which runs as often as the data says.
 */
import type { LayoutResult } from '../layout/types';
import type { GraphIndex } from './graphIndex';
import type { Bounds } from './placed';
import type { Box, Scene, SceneFrame } from './sceneTypes';

export interface PlacedFrame extends Bounds {
  readonly id: string;
  readonly title: string;
}

/** Between a frame and what it holds; frames inside another need room for theirs. */
const PADDING = 12;
const TITLE_HEIGHT = 20;

export function framesOf(index: GraphIndex, boxes: readonly Box[]): SceneFrame[] {
  const regions = index.result.regions ?? [];
  if (regions.length === 0) return [];
  const own = new Map<string, number[]>();
  boxes.forEach((box, i) => {
    const region =
      box.kind === 'kernel' ? box.box.kernel.region : index.nodes.get(box.leaf.node ?? '')?.region;
    if (region === undefined) return;
    const list = own.get(region);
    if (list) list.push(i);
    else own.set(region, [i]);
  });
  const frame = (id: string): { boxes: number[]; levels: number } => {
    const inner = regions
      .filter((r) => r.parent === id)
      .flatMap((r) => r.bodies.map((b) => frame(b.id)));
    return {
      boxes: [...(own.get(id) ?? []), ...inner.flatMap((f) => f.boxes)],
      levels: inner.reduce((n, f) => Math.max(n, f.levels + 1), 0),
    };
  };
  return regions
    .flatMap((r) => r.bodies.map((b): SceneFrame => ({ id: b.id, title: b.title, ...frame(b.id) })))
    .filter((f) => f.boxes.length > 0)
    .sort((a, b) => b.levels - a.levels);
}

export function placeFrames(scene: Scene, layout: LayoutResult): PlacedFrame[] {
  return scene.frames.flatMap(({ id, title, boxes, levels }) => {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const i of boxes) {
      const at = layout.boxes[i];
      if (!at) continue;
      left = Math.min(left, at.x);
      top = Math.min(top, at.y);
      right = Math.max(right, at.x + at.width);
      bottom = Math.max(bottom, at.y + at.height);
    }
    if (left > right) return [];
    const side = PADDING * (levels + 1);
    const above = TITLE_HEIGHT * (levels + 1);
    const width = right - left + 2 * side;
    return {
      id,
      title,
      x: left - side,
      y: top - above,
      width,
      height: bottom - top + above + side,
    };
  });
}
