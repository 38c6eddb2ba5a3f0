/**
 * What a builder has computed already, by key, with the scopes of the code it was computed in.
 *
 * A look-up is one map access however deep the scopes are: an entry that is made in a scope is logged
 * there, and what it hid is put back when the scope is left.
 */
import type { KExpr } from './kernelIr';

export class Known {
  private readonly entries = new Map<string, KExpr>();
  /** By scope: key and former entry of what was made there. */
  private readonly logs: { key: string; former: KExpr | undefined }[][] = [[]];

  get(key: string): KExpr | undefined {
    return this.entries.get(key);
  }

  /** Makes the entry visible until the scope at `depth` is left. */
  set(key: string, e: KExpr, depth: number): void {
    // The outermost scope is never left.
    if (depth > 0) this.logs[depth]?.push({ key, former: this.entries.get(key) });
    this.entries.set(key, e);
  }

  enter(): void {
    this.logs.push([]);
  }

  leave(): void {
    const log = this.logs.pop() ?? [];
    for (let i = log.length - 1; i >= 0; i--) {
      const l = log[i];
      if (!l) continue;
      if (l.former) this.entries.set(l.key, l.former);
      else this.entries.delete(l.key);
    }
  }
}
