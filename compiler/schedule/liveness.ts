/**
 * Registers: how many 32-bit values of an invocation are live at once, by backward liveness over L3.
 *
 * Vocabulary
 *  - *live*: computed, and still to be read. What a loop's body names and doesn't define itself is
 *    live throughout the loop: the next turn reads it again.
 *  - *region*: the kernel as a whole, or the body of a loop. In a loop's region only the values count
 *    that the body names: the others can be put aside in memory once, around the loop.
 *
 * A scalar of any type counts as one, four neighbours loaded at once as four. Literals, uniforms and
 * workgroup memory take none. Temporaries inside one expression aren't counted: a tree's take no more
 * than the operands that it reads for the last time.
 */
import type { IndexExpr } from '../ir/indexExpr';
import type { KExpr, Stmt } from './kernelIr';

export interface Pressure {
  /** 32-bit values that are live at once, at most. */
  readonly registers: number;
  /** How often the region is entered, in all invocations together. */
  readonly times: number;
}

/**
 * By region, the kernel as a whole first. `times` is the number of invocations; `trips` evaluates a
 * loop's. A variable, and what follows from one,
 * counts as `variable` values: as many as the tile that it will be blocked in has.
 */
export function pressures(
  body: readonly Stmt[],
  times: number,
  trips: (e: IndexExpr) => number,
  variable = 1,
): readonly Pressure[] {
  const walk = new Walk(trips, variable);
  walk.region(body, undefined, times);
  return walk.found;
}

interface Region {
  /** Names that count here; undefined: all. */
  readonly names: ReadonlySet<string> | undefined;
  live: number;
  most: number;
}

class Walk {
  readonly found: Pressure[] = [];
  private live = new Set<string>();
  private readonly regions: Region[] = [];
  private readonly sizes = new Map<string, number>();
  private readonly mentioned = new Map<readonly Stmt[], ReadonlySet<string>>();

  constructor(
    private readonly trips: (e: IndexExpr) => number,
    private readonly variable: number,
  ) {}

  region(body: readonly Stmt[], names: ReadonlySet<string> | undefined, times: number): void {
    const at = this.found.length;
    this.found.push({ registers: 0, times });
    if (this.regions.length === 0) this.mentions(body);
    let live = 0;
    for (const n of this.live) if (!names || names.has(n)) live += this.size(n);
    const region: Region = { names, live, most: live };
    this.regions.push(region);
    this.block(body, times);
    this.regions.pop();
    this.found[at] = { registers: region.most, times };
  }

  private size(name: string): number {
    return this.sizes.get(name) ?? 1;
  }

  private add(name: string): void {
    if (this.live.has(name)) return;
    this.live.add(name);
    this.count(name, this.size(name));
  }

  private drop(name: string): void {
    if (this.live.delete(name)) this.count(name, -this.size(name));
  }

  private count(name: string, by: number): void {
    for (const r of this.regions) {
      if (r.names && !r.names.has(name)) continue;
      r.live += by;
      if (r.live > r.most) r.most = r.live;
    }
  }

  private use(e: KExpr): void {
    visitNames(e, (n) => this.add(n));
  }

  private block(stmts: readonly Stmt[], times: number): void {
    for (let i = stmts.length - 1; i >= 0; i--) {
      const s = stmts[i];
      if (s) this.stmt(s, times);
    }
  }

  private stmt(s: Stmt, times: number): void {
    switch (s.s) {
      case 'let':
        this.drop(s.name);
        this.use(s.expr);
        return;
      case 'subgroup':
        this.drop(s.name);
        this.use(s.value);
        return;
      case 'load':
      case 'loadVec':
        this.drop(s.name);
        this.use(s.index);
        return;
      case 'var':
        this.drop(s.name);
        this.use(s.init);
        return;
      case 'set':
        this.drop(s.name);
        this.use(s.expr);
        return;
      case 'for': {
        const after = [...this.live];
        const names = this.mentions(s.body);
        const own = definedIn(s.body);
        // Read again by the next turn, or changed by this one for it.
        const carried = [...names].filter((n) => !own.has(n));
        for (const n of carried) this.add(n);
        this.add(s.name);
        this.use(s.to);
        if (typeof s.step !== 'number') this.use(s.step);
        const inside = new Set(names).add(s.name);
        this.region(s.body, inside, times * Math.max(0, this.trips(s.trips)));
        for (const n of carried) this.add(n);
        for (const n of after) this.add(n);
        this.drop(s.name);
        this.use(s.from);
        return;
      }
      case 'if': {
        const after = new Set(this.live);
        this.block(s.then, times);
        const then = [...this.live];
        for (const n of then) if (!after.has(n)) this.drop(n);
        for (const n of after) this.add(n);
        this.block(s.else, times);
        for (const n of then) this.add(n);
        this.use(s.cond);
        return;
      }
      case 'store':
        this.use(s.index);
        this.use(s.value);
        return;
      case 'storeVec':
        this.use(s.index);
        for (const v of s.values) this.use(v);
        return;
      case 'setShared':
        this.use(s.index);
        this.use(s.value);
        return;
      case 'exitUnless':
        this.use(s.index);
        this.use(s.end);
        return;
      case 'parts':
        // Each starts from nothing; a workgroup runs one of them.
        for (const part of s.parts) {
          this.mentions(part.body);
          this.block(part.body, times);
          for (const n of [...this.live]) this.drop(n);
          this.use(part.from);
        }
        return;
      case 'barrier':
      case 'comment':
        return;
    }
  }

  /** Whether a value follows from a variable: then there is one for each element of the tile. */
  private ofTile(e: KExpr): boolean {
    if (this.variable === 1) return false;
    let found = false;
    visitNames(e, (n) => (found ||= this.sizes.get(n) === this.variable));
    return found;
  }

  /** All names that the statements read, set or define; the sizes of those they define are noted. */
  private mentions(stmts: readonly Stmt[]): ReadonlySet<string> {
    const known = this.mentioned.get(stmts);
    if (known) return known;
    const out = new Set<string>();
    const use = (e: KExpr): void => visitNames(e, (n) => out.add(n));
    const inner = (list: readonly Stmt[]): void => {
      for (const n of this.mentions(list)) out.add(n);
    };
    for (const s of stmts) {
      switch (s.s) {
        case 'let':
          out.add(s.name);
          use(s.expr);
          if (this.ofTile(s.expr)) this.sizes.set(s.name, this.variable);
          break;
        case 'set':
          out.add(s.name);
          use(s.expr);
          break;
        case 'subgroup':
          out.add(s.name);
          use(s.value);
          break;
        case 'load':
        case 'loadVec':
          out.add(s.name);
          if (s.s === 'loadVec') this.sizes.set(s.name, 4);
          use(s.index);
          break;
        case 'var':
          out.add(s.name);
          this.sizes.set(s.name, this.variable);
          use(s.init);
          break;
        case 'for':
          out.add(s.name);
          use(s.from);
          use(s.to);
          if (typeof s.step !== 'number') use(s.step);
          inner(s.body);
          break;
        case 'if':
          use(s.cond);
          inner(s.then);
          inner(s.else);
          break;
        case 'store':
          use(s.index);
          use(s.value);
          break;
        case 'storeVec':
          use(s.index);
          for (const v of s.values) use(v);
          break;
        case 'setShared':
          use(s.index);
          use(s.value);
          break;
        case 'exitUnless':
          use(s.index);
          use(s.end);
          break;
        case 'parts':
        case 'barrier':
        case 'comment':
          break;
      }
    }
    this.mentioned.set(stmts, out);
    return out;
  }
}

/** Names that the statements define anywhere inside: no others outlive a turn of a loop around them. */
function definedIn(stmts: readonly Stmt[], out = new Set<string>()): Set<string> {
  for (const s of stmts) {
    switch (s.s) {
      case 'let':
      case 'load':
      case 'loadVec':
      case 'var':
      case 'subgroup':
        out.add(s.name);
        break;
      case 'for':
        out.add(s.name);
        definedIn(s.body, out);
        break;
      case 'if':
        definedIn(s.then, out);
        definedIn(s.else, out);
        break;
      case 'set':
      case 'store':
      case 'storeVec':
      case 'setShared':
      case 'exitUnless':
      case 'parts':
      case 'barrier':
      case 'comment':
        break;
    }
  }
  return out;
}

function visitNames(e: KExpr, visit: (name: string) => void): void {
  switch (e.k) {
    case 'lit':
    case 'sym':
      return;
    case 'ref':
      visit(e.name);
      return;
    case 'unary':
    case 'convert':
    case 'narrow':
      visitNames(e.a, visit);
      return;
    case 'binary':
    case 'int':
    case 'floor':
      visitNames(e.a, visit);
      visitNames(e.b, visit);
      return;
    case 'select':
      visitNames(e.cond, visit);
      visitNames(e.then, visit);
      visitNames(e.else, visit);
      return;
    case 'within':
      visitNames(e.a, visit);
      visitNames(e.lo, visit);
      visitNames(e.hi, visit);
      return;
    case 'all':
      for (const t of e.terms) visitNames(t, visit);
      return;
    case 'lane':
      visit(e.vec);
      visitNames(e.lane, visit);
      return;
    case 'shared':
      visitNames(e.index, visit);
      return;
  }
}
