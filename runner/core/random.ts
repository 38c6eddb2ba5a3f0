/**
 * Made-up contents: the same for the same seed and key, on every host, so that the machine that runs
 * the reference can make them again. Floats are never zero, so that no product hides an error.
 */
import { isFloat, type DType } from '../../compiler/graph/dtype';
import { representable } from './storage';
import type { Traits } from './traits';

/** FNV-1a of the key, mixed with the seed. */
function hash(key: string, seed: number): number {
  let h = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < key.length; i++) h = Math.imul(h ^ key.charCodeAt(i), 0x01000193) >>> 0;
  return h;
}

/** A 32-bit generator with a counter as its state (mulberry32). */
function generator(start: number): () => number {
  let s = start;
  return () => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
}

/** Smallest magnitude of a made-up float, before scaling. */
const SMALLEST = 2 ** -10;
const DEFAULT_BOUND = 8;

export function madeUp(
  key: string,
  seed: number,
  dtype: DType,
  elements: number,
  traits: Traits,
  weight: boolean,
): Float32Array | Int32Array {
  const next = generator(hash(key, seed));
  if (!isFloat(dtype)) {
    const out = new Int32Array(elements);
    if (dtype === 'bool') for (let i = 0; i < elements; i++) out[i] = next() & 1;
    else if (traits.bound !== undefined)
      for (let i = 0; i < elements; i++) out[i] = next() % Math.max(1, traits.bound);
    else for (let i = 0; i < elements; i++) out[i] = 1 + (next() % (DEFAULT_BOUND - 1));
    return out;
  }
  const out = new Float32Array(elements);
  const scale = weight && traits.fanIn !== undefined ? 1 / Math.sqrt(traits.fanIn) : 1;
  for (let i = 0; i < elements; i++) {
    const word = next();
    let x: number;
    if (traits.positive) x = 0.5 + word / 2 ** 32;
    else {
      // The sum of three even numbers is bell-shaped over [-1, 1].
      x = ((word & 1023) + ((word >>> 10) & 1023) + (word >>> 20) / 4) / 1534.5 - 1;
      if (Math.abs(x) < SMALLEST) x = x < 0 ? -SMALLEST : SMALLEST;
      x *= scale;
    }
    out[i] = representable(x, dtype);
  }
  return out;
}
