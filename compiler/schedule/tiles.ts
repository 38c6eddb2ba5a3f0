/**
 * How large the register tile of an invocation is: what a `loop` kernel has when nobody set it.
 *
 * Vocabulary
 *  - *row* and *column* of a contraction: the two dims that are blocked; each of two operands depends
 *    on one of them only. The column is the one whose neighbours lie side by side in memory.
 *  - *waste*: computed for positions beyond the end, because the tile doesn't divide the dim.
 *  - *use*: the share of the device that the invocations keep busy.
 */
import type { DeviceProfile } from '../result';
import type { Stmt } from './kernelIr';

/** Elements that a CPU's vectors hold. */
export const CPU_LANES = 4;

export interface ContractionTile {
  readonly row: number;
  readonly column: number;
  /**
   * Products that each load serves: what the price goes by. On a CPU, which does one thing after the
   * other, by the mean of both operands; a GPU also waits, so there at the least favourable.
   */
  readonly reuse: number;
  /** Products that the arithmetic of indices serves, apart from that inside a load. */
  readonly indexReuse: number;
  readonly products: number;
  /** Values that it reads for four turns of the sum. */
  readonly operands: number;
}

const operandsOf = (row: number, column: number): number => 4 * row + column;

/** Positions of a reduction that is written out whole. */
export const LARGEST_WINDOW = 32;

/** The largest tile along a dim. */
const MOST = 8;
/** 32-bit registers an invocation may fill with accumulators and operands before it loses more by spilling. */
const REGISTERS = 128;
/** A load of four neighbours against one of a single element. */
export const VECTOR_LOAD = 1.5;

/**
 * The tile with the least modelled time per useful product: `(1 + loadWork · loads / products) · waste / use`.
 *
 * A larger tile loads less and leaves fewer invocations; what an invocation loses in neighbours it
 * partly makes up by having independent products of its own (by the square root of the tile).
 */
export function contractionTile(
  rows: number,
  columns: number,
  /** Results in all. */
  results: number,
  device: DeviceProfile,
): ContractionTile {
  const registers = Math.min(REGISTERS, device.registers);
  let best: ContractionTile = {
    row: 1,
    column: 1,
    reuse: 1,
    indexReuse: 1,
    products: 1,
    operands: 2,
  };
  let least = Infinity;
  for (const row of sizes(rows, MOST)) {
    for (const column of sizes(columns, MOST)) {
      const products = row * column;
      if (products + operandsOf(row, column) > registers) continue;
      const vectors = column % 4 === 0 && columns % 4 === 0;
      const loads = row + (vectors ? (column / 4) * VECTOR_LOAD : column);
      const waste =
        (Math.ceil(rows / row) * row * Math.ceil(columns / column) * column) /
        Math.max(1, rows * columns);
      const busy = (results / products) * Math.sqrt(products);
      const use = Math.min(1, Math.max(1, busy) / device.saturatingThreads);
      const time = ((1 + (device.loadWork * loads) / products) * waste) / use;
      if (time < least) {
        least = time;
        const worst = products / (row + column);
        const reuse = Math.max(1, device.software ? 2 * worst : worst);
        best = {
          row,
          column,
          reuse,
          indexReuse: device.software ? reuse : 1,
          products,
          operands: operandsOf(row, column),
        };
      }
    }
  }
  return best;
}

/**
 * Turns of a sum that are written out together: as many as the device wants, and fewer where with the
 * tile's loads and products the code would be too long to stay decoded.
 */
export function unrolledTurns(tile: ContractionTile | undefined, device: DeviceProfile): number {
  const code = tile ? ACCESS_CODE * (tile.row + tile.column) + tile.products : 1;
  let turns = device.unroll;
  while (turns > 1 && turns * code > device.straightCode) turns /= 2;
  return turns;
}

/** Tiles that waste nothing, and powers of two. */
function sizes(extent: number, most: number): number[] {
  const out: number[] = [];
  for (let t = 1; t <= Math.min(most, Math.max(1, extent)); t++)
    if ((t & (t - 1)) === 0 || extent % t === 0) out.push(t);
  return out;
}

/** Elements of a pointwise kernel that one invocation computes, neighbours in memory. */
export function linearTile(
  elements: number,
  /** What one element takes. */
  body: readonly Stmt[],
  device: DeviceProfile,
): number {
  // A CPU pays for every invocation started and index computed; a GPU wants neighbouring invocations
  // to read neighbouring vectors.
  if (!device.software) return 4;
  const code = body.reduce((n, s) => n + (s.s === 'load' || s.s === 'store' ? ACCESS_CODE : 1), 0);
  let size = 16;
  while (size > 4 && (size * code > device.straightCode || elements / size < MANY_INVOCATIONS))
    size /= 2;
  return size;
}

/** The code of an access on a CPU, lane by lane and each with its check, in statements of arithmetic. */
export const ACCESS_CODE = 4;
/** Enough for every core of a CPU to have several workgroups. */
const MANY_INVOCATIONS = 2048;
