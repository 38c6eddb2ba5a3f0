/**
 * The layout's worker. Its caches live as long as it does: the page ends it to cancel a layout and
 * starts another, which then begins from the seeds that come with the request.
 */
import { TwoLevelLayout } from './twoLevel';
import type { LayoutReply, LayoutRequest } from './types';

/** The part of a worker's global scope that is used; the DOM's types describe a window's. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<LayoutRequest>) => void) | null;
  postMessage(reply: LayoutReply): void;
}

const scope = globalThis as unknown as WorkerScope;
const layouts = new Map<string, TwoLevelLayout>();

scope.onmessage = ({ data: { id, view, input, seeds } }) => {
  const started = performance.now();
  try {
    const layout = layouts.get(view) ?? new TwoLevelLayout();
    layouts.set(view, layout);
    const result = layout.layout(input, seeds);
    scope.postMessage({ id, ok: true, result, ms: performance.now() - started });
  } catch (error) {
    scope.postMessage({ id, ok: false, message: String(error) });
  }
};
