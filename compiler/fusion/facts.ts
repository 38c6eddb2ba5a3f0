/**
 * What is told of a kernel by its structure and its numbers alone: hashes of the printed group, and what
 * people call it. Kernels of one structure have it in common, in one version of a file and in the next.
 */
import type { Pattern } from './verdicts';

export interface KernelFacts {
  readonly hash: string;
  /** The hash without schedule parameters, with the sizes that symbolic dims have. */
  readonly structure: string;
  readonly pattern: Pattern;
}

export class FactMemory {
  private readonly known = new Map<object, Map<string, KernelFacts>>();

  /** @param old that of the version before: what isn't asked for again is forgotten */
  constructor(private old?: FactMemory) {}

  /** @param structure one object for all groups of one structure */
  of(structure: object, literals: string, make: () => KernelFacts): KernelFacts {
    const same = this.known.get(structure) ?? new Map<string, KernelFacts>();
    this.known.set(structure, same);
    let facts = same.get(literals);
    if (!facts) {
      facts = this.old?.known.get(structure)?.get(literals) ?? make();
      same.set(literals, facts);
    }
    return facts;
  }

  close(): void {
    this.old = undefined;
  }
}
