/**
 * Template `horizontal`: kernels that have nothing to do with each other on one grid, each body run by
 * a range of the workgroups. What it saves is launches, and small bodies fill the device together.
 *
 * Vocabulary
 *  - *part*: one of the kernels: a group with its own schedule, as it would be alone.
 */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Program } from '../ir/compute';
import { storageBytes, storageOf } from '../graph/dtype';
import { Builder } from './builder';
import type { Features } from './features';
import { boundElements } from './group';
import { rootOf, type Slices } from './slices';
import type { KernelBuffer, KernelIr, KernelPart, KExpr, SharedArray, Stmt } from './kernelIr';

/**
 * The kernel of all parts: their workgroups one after the other. Parts have one size of workgroup, and
 * bind a buffer that several of them use in one width. Workgroup memory serves all parts in turn.
 */
export function joinKernels(name: string, program: Program, parts: readonly KernelIr[]): KernelIr {
  const [first] = parts;
  if (!first) throw new Error('a kernel without parts');
  const buffers = new Map<ValueId, KernelBuffer>();
  const shared: SharedArray[] = [];
  const ends = new Builder(program, []);
  let workgroups: IndexExpr = I.num(0);
  const bodies: KernelPart[] = [];
  for (const p of parts) {
    if (p.workgroup.some((n, i) => n !== first.workgroup[i]))
      throw new Error('parts with workgroups of different sizes');
    for (const b of p.buffers) {
      const old = buffers.get(b.value);
      if (old && old.vector !== b.vector) throw new Error('a buffer bound in two widths');
      buffers.set(b.value, old ? bothOf(old, b) : b);
    }
    const names = new Map<string, string>();
    const taken = new Set<SharedArray>();
    for (const s of p.shared) {
      const at = shared.findIndex((x) => x.type === s.type && !taken.has(x));
      const old = shared[at];
      const own = { ...s, name: old?.name ?? `shared_${shared.length}` };
      const joined = { ...own, length: Math.max(s.length, old?.length ?? 0) };
      if (old) shared[at] = joined;
      else shared.push(joined);
      taken.add(joined);
      names.set(s.name, joined.name);
    }
    bodies.push({ from: ends.index(workgroups), body: renameShared(p.body, names) });
    workgroups = I.add(workgroups, p.workgroups);
  }
  const symbols = new Set(parts.flatMap((p) => p.symbols));
  for (const s of ends.symbols) symbols.add(s);
  const all = [...buffers.values()];
  return {
    name,
    buffers: [
      ...all.filter((b) => b.access === 'read'),
      ...all.filter((b) => b.access === 'read_write'),
    ],
    symbols: [...symbols].sort(),
    shared,
    workgroup: first.workgroup,
    workgroups,
    body: [...ends.body, { s: 'parts', parts: bodies }],
  };
}

/** One binding for what two parts do with a buffer. */
function bothOf(a: KernelBuffer, b: KernelBuffer): KernelBuffer {
  const access = a.access === 'read_write' ? a.access : b.access;
  if (!a.slices && !b.slices) return { ...a, access };
  const whole = (x: KernelBuffer): NonNullable<KernelBuffer['slices']> =>
    x.slices ??
    (x.access === 'read' ? { reads: [x.value], writes: [] } : { reads: [], writes: [x.value] });
  const [x, y] = [whole(a), whole(b)];
  return {
    ...a,
    access,
    slices: {
      reads: [...new Set([...x.reads, ...y.reads])],
      writes: [...new Set([...x.writes, ...y.writes])],
    },
  };
}

function renameShared(body: readonly Stmt[], names: ReadonlyMap<string, string>): Stmt[] {
  if (names.size === 0) return [...body];
  const name = (n: string): string => names.get(n) ?? n;
  const expr = (e: KExpr): KExpr => {
    switch (e.k) {
      case 'lit':
      case 'ref':
      case 'sym':
        return e;
      case 'unary':
      case 'convert':
      case 'narrow':
        return { ...e, a: expr(e.a) };
      case 'binary':
      case 'int':
      case 'floor':
        return { ...e, a: expr(e.a), b: expr(e.b) };
      case 'select':
        return { ...e, cond: expr(e.cond), then: expr(e.then), else: expr(e.else) };
      case 'within':
        return { ...e, a: expr(e.a), lo: expr(e.lo), hi: expr(e.hi) };
      case 'all':
        return { ...e, terms: e.terms.map(expr) };
      case 'lane':
        return { ...e, lane: expr(e.lane) };
      case 'shared':
        return { ...e, name: name(e.name), index: expr(e.index) };
    }
  };
  const stmts = (list: readonly Stmt[]): Stmt[] => list.map(stmt);
  const stmt = (s: Stmt): Stmt => {
    switch (s.s) {
      case 'let':
      case 'set':
        return { ...s, expr: expr(s.expr) };
      case 'load':
      case 'loadVec':
        return { ...s, index: expr(s.index) };
      case 'var':
        return { ...s, init: expr(s.init) };
      case 'for':
        return {
          ...s,
          from: expr(s.from),
          to: expr(s.to),
          step: typeof s.step === 'number' ? s.step : expr(s.step),
          body: stmts(s.body),
        };
      case 'if':
        return { ...s, cond: expr(s.cond), then: stmts(s.then), else: stmts(s.else) };
      case 'store':
        return { ...s, index: expr(s.index), value: expr(s.value) };
      case 'storeVec':
        return { ...s, index: expr(s.index), values: s.values.map(expr) };
      case 'subgroup':
        return { ...s, value: expr(s.value) };
      case 'setShared':
        return { ...s, name: name(s.name), index: expr(s.index), value: expr(s.value) };
      case 'exitUnless':
        return { ...s, index: expr(s.index), end: expr(s.end) };
      case 'parts':
        return { ...s, parts: s.parts.map((p) => ({ ...p, body: stmts(p.body) })) };
      case 'barrier':
      case 'comment':
        return s;
    }
  };
  return stmts(body);
}

/**
 * What the kernel of all parts does. Bytes that several parts read count once, as far as the value has
 * them. Threads are those that are busy to the end: a part with few invocations and much to do sets
 * the time, however many the others have.
 */
export function joinFeatures(
  program: Program,
  slices: Slices | undefined,
  f16: boolean,
  parts: readonly Features[],
): Features {
  const sum = (f: (p: Features) => number): number => parts.reduce((n, p) => n + f(p), 0);
  const most = (f: (p: Features) => number): number => Math.max(...parts.map(f));
  const bytesOf = new Map<ValueId, number>();
  let written = 0;
  for (const p of parts) {
    written += p.bytesWritten;
    for (const [v, bytes] of p.bytesOf) {
      const value = program.values.get(v);
      const whole = value
        ? boundElements(program, value.shape) * storageBytes(storageOf(value.dtype, f16))
        : Infinity;
      bytesOf.set(v, Math.min(whole, (bytesOf.get(v) ?? 0) + bytes));
    }
  }
  let all = 0;
  for (const bytes of bytesOf.values()) all += bytes;
  const work = sum((p) => p.work);
  const slowest = most((p) => p.work / Math.max(1, p.threads));
  const threads = sum((p) => p.threads);
  return {
    flops: sum((p) => p.flops),
    work,
    sharedAccesses: sum((p) => p.sharedAccesses),
    barriers: sum((p) => p.barriers),
    threads: slowest > 0 ? Math.max(1, Math.min(threads, Math.round(work / slowest))) : threads,
    workgroups: sum((p) => p.workgroups),
    dispatches: 1,
    bytesRead: all - written,
    bytesWritten: written,
    bytesOf,
    buffers: new Set([...bytesOf.keys()].map((v) => rootOf(slices, v))).size,
    sharedBytes: most((p) => p.sharedBytes),
    registers: most((p) => p.registers),
    pressure: parts.flatMap((p) => p.pressure),
    size: sum((p) => p.size + 2),
    repeated: [],
    wastedBytes: sum((p) => p.wastedBytes),
  };
}
