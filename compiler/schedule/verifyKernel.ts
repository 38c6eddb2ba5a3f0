/**
 * The verifiers of L2 and L3, for tests: what the templates and the planner promise each other.
 */
import type { CopyStep, DispatchSpec, ExecPlan, ExecStep, Share } from '../result';
import { ALIGNMENT } from './chunks';
import { type KernelIr, type KExpr, type KType, type Stmt, SUBGROUP_SIZE } from './kernelIr';
import { placesOf } from './shares';

const BUILTINS: ReadonlyMap<string, KType> = new Map([
  ['wg', 'i32'],
  ['lid', 'i32'],
  [SUBGROUP_SIZE, 'i32'],
]);

/** What is wrong with a kernel, one sentence each; nothing for a sound one. */
export function verifyKernel(k: KernelIr): string[] {
  const problems: string[] = [];
  const buffers = new Map(k.buffers.map((b) => [b.value, b]));
  const shared = new Map(k.shared.map((s) => [s.name, s]));
  const symbols = new Set(k.symbols);
  let exited = false;

  const walk = (
    stmts: readonly Stmt[],
    outer: ReadonlyMap<string, KType>,
    divergent: boolean,
  ): void => {
    const names = new Map(outer);
    const define = (name: string, type: KType): void => {
      if (names.has(name)) problems.push(`${name} is defined twice`);
      names.set(name, type);
    };
    const use = (e: KExpr): void => check(e, names);
    const index = (e: KExpr): void => {
      use(e);
      if (e.type !== 'i32') problems.push(`an index of type ${e.type}`);
    };
    for (const s of stmts) {
      switch (s.s) {
        case 'let':
          use(s.expr);
          define(s.name, s.expr.type);
          break;
        case 'load':
        case 'loadVec': {
          index(s.index);
          const b = buffers.get(s.buffer);
          if (!b) problems.push(`${s.buffer} is read and not bound`);
          else if (b.vector !== (s.s === 'loadVec'))
            problems.push(`${s.buffer} is read in the wrong width`);
          define(s.name, s.type);
          break;
        }
        case 'var':
          use(s.init);
          if (s.init.type !== s.type)
            problems.push(`${s.name}: ${s.type} starts as ${s.init.type}`);
          define(s.name, s.type);
          break;
        case 'set': {
          use(s.expr);
          const type = names.get(s.name);
          if (type !== s.expr.type)
            problems.push(`${s.name}: ${type ?? 'undefined'} is set to ${s.expr.type}`);
          break;
        }
        case 'for': {
          index(s.from);
          index(s.to);
          const inner = new Map(names);
          inner.set(s.name, 'i32');
          walk(s.body, inner, divergent);
          break;
        }
        case 'if':
          use(s.cond);
          if (s.cond.type !== 'bool') problems.push(`a condition of type ${s.cond.type}`);
          walk(s.then, names, true);
          walk(s.else, names, true);
          break;
        case 'store':
        case 'storeVec': {
          index(s.index);
          for (const v of s.s === 'store' ? [s.value] : s.values) use(v);
          const b = buffers.get(s.buffer);
          if (b?.access !== 'read_write')
            problems.push(`${s.buffer} is stored to and not bound for it`);
          else if (b.vector !== (s.s === 'storeVec'))
            problems.push(`${s.buffer} is stored in the wrong width`);
          break;
        }
        case 'setShared':
          index(s.index);
          use(s.value);
          if (shared.get(s.name)?.type !== s.value.type)
            problems.push(`${s.name} does not hold ${s.value.type}`);
          break;
        case 'barrier':
          if (divergent || exited) problems.push('a barrier that not all invocations reach');
          break;
        case 'subgroup':
          use(s.value);
          if (divergent || exited)
            problems.push('a subgroup of which not all invocations are there');
          define(s.name, s.value.type);
          break;
        case 'exitUnless':
          index(s.index);
          index(s.end);
          exited = true;
          break;
        case 'parts':
          for (const part of s.parts) {
            index(part.from);
            // A part sees nothing of what is around it but its workgroup's number and its own.
            exited = false;
            walk(part.body, BUILTINS, false);
          }
          exited = true;
          break;
        case 'comment':
          break;
      }
    }
  };

  const check = (e: KExpr, names: ReadonlyMap<string, KType>): void => {
    switch (e.k) {
      case 'lit':
        return;
      case 'ref':
        if (names.get(e.name) !== e.type)
          problems.push(
            `${e.name} is used as ${e.type} and is ${names.get(e.name) ?? 'not defined'}`,
          );
        return;
      case 'sym':
        if (!symbols.has(e.name)) problems.push(`the size ${e.name} is no uniform`);
        return;
      case 'unary':
      case 'convert':
      case 'narrow':
        check(e.a, names);
        return;
      case 'binary':
      case 'int':
      case 'floor':
        check(e.a, names);
        check(e.b, names);
        if (e.a.type !== e.b.type) problems.push(`${e.fn} of ${e.a.type} and ${e.b.type}`);
        return;
      case 'select':
        check(e.cond, names);
        check(e.then, names);
        check(e.else, names);
        if (e.then.type !== e.else.type)
          problems.push(`a choice between ${e.then.type} and ${e.else.type}`);
        return;
      case 'within':
        check(e.a, names);
        check(e.lo, names);
        check(e.hi, names);
        return;
      case 'all':
        for (const t of e.terms) check(t, names);
        return;
      case 'lane':
        if (!names.has(e.vec)) problems.push(`${e.vec} is not defined`);
        check(e.lane, names);
        return;
      case 'shared':
        if (!shared.has(e.name)) problems.push(`${e.name} is no workgroup memory`);
        check(e.index, names);
        return;
    }
  };

  walk(k.body, BUILTINS, false);
  return problems;
}

/**
 * What is wrong with a plan: each element must be given, or stored by an earlier dispatch, before it is
 * read, and be stored once; and of buffers that share a place no two may be live at once.
 */
export function verifyExecPlan(plan: ExecPlan): string[] {
  const problems: string[] = [];
  const sizes = new Map(plan.buffers.map((b) => [b.id, b.elements]));
  const given = new Set<string>();
  for (const b of plan.buffers)
    if (b.role === 'input' || b.role === 'param' || b.role === 'const') given.add(b.id);
  // By buffer: the elements that are stored, once some are.
  const stored = new Map<string, Uint8Array>();
  const marks = (buffer: string): Uint8Array => {
    const known = stored.get(buffer) ?? new Uint8Array(sizes.get(buffer) ?? 0);
    stored.set(buffer, known);
    return known;
  };
  const whole = (buffer: string): Share => ({
    name: buffer,
    shape: [],
    elements: sizes.get(buffer) ?? 0,
    steps: [],
  });
  const any = (buffer: string, shares: readonly Share[], mark: number): boolean => {
    const seen = marks(buffer);
    let found = false;
    for (const r of shares)
      placesOf(r, (place) => {
        if (seen[place] !== mark) return;
        found = true;
      });
    return found;
  };
  const read = (who: string, buffer: string | undefined, what?: readonly Share[]): void => {
    if (buffer === undefined || given.has(buffer)) return;
    if (any(buffer, what ?? [whole(buffer)], 0))
      problems.push(`${who} reads ${buffer} before it is stored`);
  };
  const ready = (buffer: string): void => {
    marks(buffer).fill(1);
  };
  const dispatch = (d: DispatchSpec): void => {
    // Chunks do together what one dispatch would.
    if (d.chunk && d.chunk.index > 0) return;
    for (const b of d.bindings)
      read(d.kernel, b.buffer, b.shares?.reads ?? (b.access === 'read' ? undefined : []));
    const bound = new Set<string>();
    for (const b of d.bindings) {
      // Pieces of one buffer are one.
      if (b.access !== 'read_write' || bound.has(b.buffer)) continue;
      bound.add(b.buffer);
      const writes = b.shares?.writes ?? [whole(b.buffer)];
      if (given.has(b.buffer)) problems.push(`${b.buffer} is stored twice`);
      const seen = marks(b.buffer);
      for (const r of writes) {
        if (any(b.buffer, [r], 1)) problems.push(`${b.buffer} is stored twice`);
        placesOf(r, (place) => {
          if (place >= seen.length)
            problems.push(`${d.kernel} stores beyond the end of ${b.buffer}`);
          else seen[place] = 1;
        });
      }
    }
  };
  const copies = (who: string, list: readonly CopyStep[]): void => {
    for (const c of list) read(who, c.from);
    for (const c of list) ready(c.to);
  };
  const walk = (steps: readonly ExecStep[]): void => {
    for (const s of steps) {
      switch (s.kind) {
        case 'dispatch': {
          const d = plan.dispatches[s.dispatch];
          if (d) dispatch(d);
          else problems.push(`there is no dispatch ${s.dispatch}`);
          break;
        }
        case 'copy':
          copies('a copy', [s]);
          break;
        case 'branch':
          read(s.region, s.condition);
          walk(s.then);
          walk(s.else);
          break;
        case 'loop':
          for (const b of [s.tripsBuffer, s.condition]) read(s.region, b);
          copies(s.region, s.start);
          for (const x of s.slices) {
            read(s.region, x.whole);
            ready(x.part);
          }
          for (const b of [s.iteration, s.running]) if (b !== undefined) ready(b);
          walk(s.body);
          for (const x of s.rows) {
            read(s.region, x.part);
            ready(x.whole);
          }
          read(s.region, s.goesOn);
          copies(s.region, s.next);
          copies(s.region, s.end);
          break;
      }
    }
  };
  problems.push(...windowProblems(plan));
  // What is prepared is there, whole, whenever the rest runs.
  plan.prepare?.forEach(dispatch);
  if (plan.steps) walk(plan.steps);
  else plan.dispatches.forEach(dispatch);
  for (const o of plan.outputs)
    if (!given.has(o.buffer) && any(o.buffer, [whole(o.buffer)], 0))
      problems.push(`the output ${o.name} is never stored`);
  return [...problems, ...sharingProblems(plan)];
}

/** The windows of a kernel's chunks must cover what the kernel stores, and overlap in no one dispatch. */
function windowProblems(plan: ExecPlan): string[] {
  const problems: string[] = [];
  const sizes = new Map(plan.buffers.map((b) => [b.id, b.bytes]));
  /** By kernel and buffer: what its chunks bind to store to. */
  const stores = new Map<string, { buffer: string; from: number; to: number }[]>();
  for (const d of [...(plan.prepare ?? []), ...plan.dispatches]) {
    if (!d.chunk) continue;
    const ends = new Map<string, number>();
    for (const { buffer, access, window, shares } of d.bindings) {
      if (!window) continue;
      const { offset, bytes } = window;
      const all = sizes.get(buffer) ?? 0;
      if (offset % ALIGNMENT !== 0 || bytes < 4 || bytes % 4 !== 0 || offset + bytes > all)
        problems.push(`${d.kernel} binds ${bytes} bytes of ${buffer} from ${offset} on`);
      const before = ends.get(buffer);
      if (before !== undefined && before !== offset)
        problems.push(`${d.kernel} binds pieces of ${buffer} that aren't side by side`);
      ends.set(buffer, offset + bytes);
      // What of a shared buffer a kernel stores is in its shares.
      if (access === 'read' || shares) continue;
      const key = `${d.kernel} ${buffer}`;
      const list = stores.get(key) ?? [];
      stores.set(key, list);
      list.push({ buffer, from: offset, to: offset + bytes });
    }
  }
  for (const list of stores.values()) {
    let done = 0;
    for (const { from, to } of list.sort((a, b) => a.from - b.from))
      if (from <= done) done = Math.max(done, to);
    const buffer = list[0]?.buffer ?? '';
    if (done < (sizes.get(buffer) ?? 0)) problems.push(`no chunk stores ${buffer} from ${done} on`);
  }
  return problems;
}

/** Told from what each dispatch would find in memory, not from lifetimes as the planner sees them. */
function sharingProblems(plan: ExecPlan): string[] {
  const problems: string[] = [];
  const byId = new Map(plan.buffers.map((b) => [b.id, b]));
  for (const b of plan.buffers)
    if (b.place !== undefined && b.role !== 'intermediate')
      problems.push(`${b.id}, which is no intermediate, shares memory`);
  const results = new Set(plan.outputs.map((o) => o.buffer));
  /** By place: the buffer whose contents lie there. */
  const holds = new Map<number, string>();
  for (const d of plan.dispatches) {
    const bound = new Map<number, string>();
    for (const { buffer, access } of d.bindings) {
      const place = byId.get(buffer)?.place;
      if (place === undefined) continue;
      if (results.has(buffer)) problems.push(`the output in ${buffer} shares memory`);
      const other = bound.get(place);
      if (other !== undefined && other !== buffer)
        problems.push(`${d.kernel} is given ${other} and ${buffer} in one place`);
      bound.set(place, buffer);
      if (access === 'read' && holds.get(place) !== buffer)
        problems.push(`${d.kernel} reads ${buffer} where ${holds.get(place) ?? 'nothing'} lies`);
    }
    for (const { buffer, access } of d.bindings) {
      const place = byId.get(buffer)?.place;
      if (access === 'read_write' && place !== undefined) holds.set(place, buffer);
    }
  }
  return problems;
}
