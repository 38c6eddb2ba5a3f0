/**
 * A binary heap over any order; `before` must be a strict total order for results to be deterministic.
 */
export class Heap<T> {
  private readonly items: T[] = [];

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  get size(): number {
    return this.items.length;
  }

  push(x: T): void {
    const h = this.items;
    let i = h.length;
    h.push(x);
    while (i > 0) {
      const p = (i - 1) >> 1;
      const parent = h[p];
      if (parent === undefined || !this.before(x, parent)) break;
      h[i] = parent;
      i = p;
    }
    h[i] = x;
  }

  pop(): T | undefined {
    const h = this.items;
    const top = h[0];
    const last = h.pop();
    if (top === undefined || last === undefined || h.length === 0) return top;
    let i = 0;
    for (;;) {
      let k = 2 * i + 1;
      const left = h[k];
      if (left === undefined) break;
      const right = h[k + 1];
      let child = left;
      if (right !== undefined && this.before(right, left)) {
        child = right;
        k++;
      }
      if (!this.before(child, last)) break;
      h[i] = child;
      i = k;
    }
    h[i] = last;
    return top;
  }
}
