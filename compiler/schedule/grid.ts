/**
 * The grid: how invocations find their place, and how a finished builder becomes a kernel.
 *
 * The language back end provides four names: `wg` (flat number of the workgroup), `lid` (flat local
 * number). Workgroups are counted flat; the host folds the count over two grid dims when it is over
 * the adapter's limit, so kernels with a last, partly filled row test their number against the end.
 */
import { storageOf } from '../graph/dtype';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Builder, BuilderOptions } from './builder';
import type { KernelBuffer, KernelIr } from './kernelIr';

/** The flat number of the invocation, in [0, threads); those beyond return at once. */
export function flatWorkgroup(b: Builder, workgroup: number, threads: IndexExpr): IndexExpr {
  const wg = b.ref('wg', 'i32', 0);
  const lid = b.ref('lid', 'i32', 0);
  const flat = b.int(
    'iadd',
    b.int('imul', wg, { k: 'lit', value: workgroup, type: 'i32', depth: 0 }),
    lid,
  );
  const thread = b.bindVar('thread', threads, flat, (local) => local, {
    perWorkgroup: workgroup,
  });
  b.exitUnless(thread, threads);
  return thread;
}

export function finishKernel(
  name: string,
  b: Builder,
  workgroup: number,
  workgroups: IndexExpr,
  options: BuilderOptions,
): KernelIr {
  const f16 = options.f16 ?? false;
  const buffers = new Map<ValueId, KernelBuffer>();
  const add = (buffer: ValueId, access: 'read' | 'read_write'): void => {
    const v = b.program.values.get(buffer);
    if (!v) throw new Error(`no value ${buffer}`);
    const reads = [...(b.loads.get(buffer) ?? [])];
    const writes = [...(b.stores.get(buffer) ?? [])];
    const elements = I.constOf(I.product(v.shape));
    buffers.set(buffer, {
      value: buffer,
      ...(elements === undefined ? {} : { elements }),
      storage: storageOf(v.dtype, f16),
      access,
      vector: options.vector?.has(buffer) ?? false,
      ...([...reads, ...writes].some((x) => x !== buffer) ? { slices: { reads, writes } } : {}),
    });
  };
  // A buffer that holds what is read and what is stored is bound once: the two never overlap.
  for (const v of b.loads.keys()) if (!b.stores.has(v)) add(v, 'read');
  for (const v of b.stores.keys()) add(v, 'read_write');
  const symbols = new Set(b.symbols);
  for (const s of I.symbolsOf(workgroups)) symbols.add(s);
  return {
    name,
    buffers: [...buffers.values()],
    symbols: [...symbols].sort(),
    shared: b.shared,
    workgroup: [workgroup, 1, 1],
    workgroups,
    body: b.body,
    grid: b.grid,
  };
}
