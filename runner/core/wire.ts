/**
 * Jobs and replies between the extension host and a page.
 *
 * What VS Code carries between the two is JSON plus buffers: a `Map` would arrive empty, an infinity
 * as null, and structure that is shared (as index expressions share theirs) would be written out once
 * for each use. So a value travels as a flat table, in which objects refer to each other by position.
 * Typed arrays stand in the table as they are: those are what the carrier knows how to move. (Not for
 * every extension: where it makes objects with numbered keys of them, they are made again by name.)
 */

export interface Wire {
  readonly root: WireSlot;
  readonly table: readonly WireEntry[];
}

/** A primitive as it is, a reference into the table, or what JSON has no word for. */
export type WireSlot =
  | null
  | boolean
  | number
  | string
  | { readonly ref: number }
  | { readonly special: 'undefined' | 'NaN' | 'Infinity' | '-Infinity' | '-0' };

const BUFFERS = {
  Float32Array,
  Float64Array,
  Int8Array,
  Int16Array,
  Int32Array,
  Uint8Array,
  Uint16Array,
  Uint32Array,
} as const;

export type BufferType = keyof typeof BUFFERS;

export type WireEntry =
  | {
      readonly kind: 'object';
      readonly keys: readonly string[];
      readonly slots: readonly WireSlot[];
    }
  | { readonly kind: 'array' | 'map' | 'set'; readonly slots: readonly WireSlot[] }
  | { readonly kind: 'buffer'; readonly type: BufferType; readonly buffer: ArrayBufferView };

export function toWire(value: unknown): Wire {
  const table: WireEntry[] = [];
  const found = new Map<object, number>();
  const queue: object[] = [];
  const slot = (item: unknown): WireSlot => {
    if (typeof item === 'number') return numberSlot(item);
    if (item === null || typeof item === 'boolean' || typeof item === 'string') return item;
    if (item === undefined) return { special: 'undefined' };
    if (typeof item !== 'object') throw new TypeError(`A ${typeof item} can't travel.`);
    let ref = found.get(item);
    if (ref === undefined) {
      ref = queue.push(item) - 1;
      found.set(item, ref);
    }
    return { ref };
  };
  const root = slot(value);
  // The queue grows while it is read; no recursion, so depth doesn't matter.
  for (const item of queue) {
    if (ArrayBuffer.isView(item)) table.push(bufferEntry(item));
    else if (Array.isArray(item)) table.push({ kind: 'array', slots: item.map(slot) });
    else if (item instanceof Map)
      table.push({ kind: 'map', slots: [...item].flatMap(([k, v]) => [slot(k), slot(v)]) });
    else if (item instanceof Set) table.push({ kind: 'set', slots: [...item].map(slot) });
    else {
      const entries = Object.entries(item);
      table.push({
        kind: 'object',
        keys: entries.map(([key]) => key),
        slots: entries.map(([, part]) => slot(part)),
      });
    }
  }
  return { root, table };
}

/** The value, shared structure included. What is in it is the sender's word: both ends are ours. */
export function fromWire(wire: Wire): unknown {
  const made = wire.table.map((entry) => {
    switch (entry.kind) {
      case 'object':
        return {};
      case 'array':
        return [];
      case 'map':
        return new Map<unknown, unknown>();
      case 'set':
        return new Set<unknown>();
      case 'buffer':
        return bufferOf(entry.type, entry.buffer);
    }
  });
  const value = (slot: WireSlot | undefined): unknown => {
    if (typeof slot !== 'object' || slot === null) return slot;
    return 'ref' in slot ? made[slot.ref] : SPECIAL[slot.special];
  };
  for (const [i, entry] of wire.table.entries()) {
    const target = made[i];
    if (entry.kind === 'object') {
      for (const [k, key] of entry.keys.entries())
        // A plain assignment of `__proto__` would change the object's nature.
        Object.defineProperty(target, key, {
          value: value(entry.slots[k]),
          enumerable: true,
          writable: true,
          configurable: true,
        });
    } else if (target instanceof Map) {
      const { slots } = entry as { slots: readonly WireSlot[] };
      for (let k = 0; k < slots.length; k += 2) target.set(value(slots[k]), value(slots[k + 1]));
    } else if (target instanceof Set && entry.kind === 'set') {
      for (const slot of entry.slots) target.add(value(slot));
    } else if (Array.isArray(target) && entry.kind === 'array') {
      for (const slot of entry.slots) target.push(value(slot));
    }
  }
  return value(wire.root);
}

export function isBufferType(name: unknown): name is BufferType {
  return typeof name === 'string' && Object.hasOwn(BUFFERS, name);
}

function bufferEntry(view: ArrayBufferView): WireEntry {
  // Node's Buffer is a Uint8Array by this tag, and writes itself as JSON in its own way.
  const type = Object.prototype.toString.call(view).slice('[object '.length, -1);
  if (!isBufferType(type)) throw new TypeError(`A ${type} can't travel.`);
  const plain = type !== 'Uint8Array' || view.constructor === Uint8Array;
  const { buffer, byteOffset, byteLength } = view;
  return {
    kind: 'buffer',
    type,
    buffer: plain ? view : new Uint8Array(buffer, byteOffset, byteLength),
  };
}

/** JSON writes what is no number as null. */
function bufferOf(type: BufferType, carried: object): ArrayBufferView {
  if (ArrayBuffer.isView(carried)) return carried;
  const numbers = Object.values(carried).map((n: unknown) => (typeof n === 'number' ? n : NaN));
  return new BUFFERS[type](numbers);
}

const SPECIAL = { undefined: undefined, NaN, Infinity, '-Infinity': -Infinity, '-0': -0 } as const;

function numberSlot(n: number): WireSlot {
  if (Number.isNaN(n)) return { special: 'NaN' };
  if (n === Infinity) return { special: 'Infinity' };
  if (n === -Infinity) return { special: '-Infinity' };
  return Object.is(n, -0) ? { special: '-0' } : n;
}
