/**
 * The protobuf wire format: a cursor over the bytes of one message.
 *
 * Vocabulary
 *  - *field*: a number and a wire type (varint, 64-bit, length-delimited, 32-bit), then its contents.
 *  - *view*: a `subarray` of the file. Length-delimited contents are handed out as views.
 *  - *cut*: contents that weren't read from the file (outline.ts): handed out as where they are in it.
 *    Positions inside this file count bytes of the outline; faults and references tell the file's.
 *  - *fault*: the first thing found wrong. It is sticky: from then on every reader of the file is at
 *    its end and every read gives nothing, so decoding stops by itself, without exceptions.
 *
 * Why not a protobuf library: generated code copies `bytes` fields or decodes the whole message into
 * objects, builds its types at run time or brings the whole of ONNX's schema, and throws on bad
 * input. Models are mostly weights, which must stay views; what is needed of the format is this page.
 */
import { decodeUtf8 } from '../utf8';
import type { ByteRange, Cut, FileOutline } from './outline';

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
export const FIXED32 = 5;

/** Protobuf's own parsers stop at 100 nested messages; files that need more don't exist. */
const MAX_DEPTH = 100;

export interface WireFault {
  readonly message: string;
  /** Byte in the file. */
  readonly offset: number;
}

/** What all readers of one file share. */
export interface WireState {
  fault?: WireFault;
}

/** Between positions in an outline and in its file. */
class Positions {
  /** Of each cut, where it begins in the file. */
  private readonly starts: number[] = [];

  constructor(private readonly cuts: readonly Cut[]) {
    let left = 0;
    for (const c of cuts) {
      this.starts.push(c.at + left);
      left += c.length - 1;
    }
  }

  inFile(at: number): number {
    const i = lastUpTo(this.cuts.length, (k) => (this.cuts[k]?.at ?? 0) < at);
    const cut = this.cuts[i];
    return cut ? (this.starts[i] ?? 0) + cut.length + (at - cut.at - 1) : at;
  }

  /** Inside a cut: behind it. */
  inOutline(offset: number): number {
    const i = lastUpTo(this.cuts.length, (k) => (this.starts[k] ?? 0) < offset);
    const cut = this.cuts[i];
    if (!cut) return offset;
    const behind = offset - (this.starts[i] ?? 0) - cut.length;
    return cut.at + 1 + Math.max(0, behind);
  }

  /** The first cut from `start` on. */
  from(start: number): Cut | undefined {
    return this.cuts[lastUpTo(this.cuts.length, (k) => (this.cuts[k]?.at ?? 0) < start) + 1];
  }
}

/** The last of `count` things for which `holds`, which is so for none behind one for which it isn't; or -1. */
function lastUpTo(count: number, holds: (k: number) => boolean): number {
  let from = 0;
  let to = count;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}

/** Contents as bytes, or where they are in the file. */
export type Contents = Uint8Array | ByteRange;

/** Of a field's contents: positions in the outline, and where they end in the file. */
interface Span {
  readonly start: number;
  readonly end: number;
  readonly fileEnd: number;
}

export class WireReader {
  /** Of the field that `next` moved to. */
  field = 0;
  wireType = 0;
  private constructor(
    private readonly file: Uint8Array,
    private readonly positions: Positions | undefined,
    private readonly state: WireState,
    private pos: number,
    private readonly end: number,
    /** Where it ends in the file: that may be in the midst of a cut, behind which nothing is read. */
    private readonly fileEnd: number,
    private readonly depth: number,
  ) {}

  static of({ bytes, cuts }: FileOutline, state: WireState): WireReader {
    const positions = cuts.length === 0 ? undefined : new Positions(cuts);
    const fileEnd = positions?.inFile(bytes.length) ?? bytes.length;
    return new WireReader(bytes, positions, state, 0, bytes.length, fileEnd, 0);
  }

  /** Moves to the next field; false at the end of the message and after a fault. */
  next(): boolean {
    if (this.state.fault || this.pos >= this.end) return false;
    const tag = this.readVarint();
    if (this.failed()) return false;
    this.field = Math.floor(tag / 8);
    this.wireType = tag % 8;
    if (this.field === 0 || this.field > 536870911) {
      this.fail(`field number ${this.field} isn't allowed`);
      return false;
    }
    return true;
  }

  /** True while a packed field has elements left. */
  more(): boolean {
    return !this.state.fault && this.pos < this.end;
  }

  /** The next integer of a packed field. */
  element(signed: boolean): number {
    return this.readVarint(signed);
  }

  failed(): boolean {
    return this.state.fault !== undefined;
  }

  fail(message: string): void {
    this.state.fault ??= { message, offset: this.inFile(this.pos) };
  }

  /** Signed 64 bits, as the nearest double. */
  int(): number {
    return this.expect(VARINT) ? this.readVarint(true) : 0;
  }

  /** Unsigned 64 bits, as the nearest double. */
  uint(): number {
    return this.expect(VARINT) ? this.readVarint() : 0;
  }

  float(): number {
    return this.expect(FIXED32) ? this.readFloat() : 0;
  }

  double(): number {
    return this.expect(FIXED64) ? this.readDouble() : 0;
  }

  /** The contents: a view, or where they are. */
  contents(): Contents {
    const span = this.span();
    return this.cutOf(span) ?? this.view(span);
  }

  string(): string {
    return decodeUtf8(this.view(this.span()));
  }

  /** A reader of the contents as a message. */
  message(): WireReader {
    return this.inside(this.span());
  }

  /** Appends a repeated integer field: packed, or one element. Says where they are if they were left out. */
  ints(into: number[], signed = true): ByteRange | undefined {
    if (this.wireType !== DELIMITED) {
      into.push(signed ? this.int() : this.uint());
      return undefined;
    }
    const span = this.span();
    const cut = this.cutOf(span);
    if (cut) return cut;
    const packed = this.inside(span);
    while (packed.more()) into.push(packed.element(signed));
    return undefined;
  }

  floats(into: number[]): void {
    if (this.wireType !== DELIMITED) {
      into.push(this.float());
      return;
    }
    const packed = this.message();
    while (packed.more()) into.push(packed.readFloat());
  }

  doubles(into: number[]): void {
    if (this.wireType !== DELIMITED) {
      into.push(this.double());
      return;
    }
    const packed = this.message();
    while (packed.more()) into.push(packed.readDouble());
  }

  skip(): void {
    switch (this.wireType) {
      case VARINT:
        this.readVarint();
        return;
      case FIXED64:
        this.take(8);
        return;
      case DELIMITED:
        this.span();
        return;
      case FIXED32:
        this.take(4);
        return;
      default:
        this.fail(`wire type ${this.wireType} isn't used by ONNX`);
    }
  }

  private expect(wireType: number): boolean {
    if (this.wireType === wireType) return true;
    this.fail(`field ${this.field} has wire type ${this.wireType} where ${wireType} is due`);
    return false;
  }

  private span(): Span {
    const nothing = { start: this.pos, end: this.pos, fileEnd: this.inFile(this.pos) };
    if (!this.expect(DELIMITED)) return nothing;
    const length = this.readVarint();
    if (this.failed()) return nothing;
    const start = this.pos;
    const from = this.inFile(start);
    const left = this.fileEnd - from;
    if (length > left) {
      this.fail(`field ${this.field} says it has ${length} bytes, but ${left} are left`);
      return nothing;
    }
    const fileEnd = from + length;
    this.pos = this.positions ? this.positions.inOutline(fileEnd) : fileEnd;
    return { start, end: this.pos, fileEnd };
  }

  private inside(span: Span): WireReader {
    if (this.cutOf(span)) this.failOnCut(span);
    if (this.depth >= MAX_DEPTH) this.fail(`messages are nested more than ${MAX_DEPTH} deep`);
    const { file, positions, state, depth } = this;
    return new WireReader(file, positions, state, span.start, span.end, span.fileEnd, depth + 1);
  }

  private view(span: Span): Uint8Array {
    const cut = this.positions?.from(span.start);
    if (cut && cut.at < span.end) this.failOnCut(span);
    return this.file.subarray(span.start, span.end);
  }

  private cutOf(span: Span): ByteRange | undefined {
    const cut = this.positions?.from(span.start);
    return cut?.at === span.start && span.end === span.start + 1
      ? { offset: this.inFile(span.start), length: cut.length }
      : undefined;
  }

  private failOnCut(span: Span): void {
    const length = span.fileEnd - this.inFile(span.start);
    this.fail(`field ${this.field} has ${length} bytes: no model has that many there`);
  }

  private inFile(at: number): number {
    return this.positions?.inFile(at) ?? at;
  }

  /** Moves past `count` bytes; gives where they start, or -1. */
  private take(count: number): number {
    const at = this.pos;
    if (count > this.end - at) {
      this.fail(`the file ends within field ${this.field}`);
      return -1;
    }
    this.pos = at + count;
    return at;
  }

  private readVarint(signed = false): number {
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      const byte = this.pos < this.end ? this.file[this.pos] : undefined;
      if (byte === undefined) {
        this.fail('the file ends within a number');
        return 0;
      }
      this.pos++;
      const bits = byte & 0x7f;
      if (i < 4) low += bits * 2 ** (7 * i);
      else if (i === 4) {
        low += (bits & 0x0f) * 2 ** 28;
        high += bits >> 4;
      } else if (i < 9) high += bits * 2 ** (7 * i - 32);
      else high += (bits & 1) * 2 ** 31;
      if (byte < 0x80) {
        return signed && high >= 2 ** 31 ? (high - 2 ** 32) * 2 ** 32 + low : high * 2 ** 32 + low;
      }
    }
    this.fail('a number has more than 10 bytes');
    return 0;
  }

  private readFloat(): number {
    const at = this.take(4);
    return at < 0 ? 0 : viewOf(this.file).getFloat32(at, true);
  }

  private readDouble(): number {
    const at = this.take(8);
    return at < 0 ? 0 : viewOf(this.file).getFloat64(at, true);
  }
}

/** Integers that are packed one after the other; undefined where the bytes aren't such. */
export function packedInts(bytes: Uint8Array, signed: boolean): number[] | undefined {
  const state: WireState = {};
  const reader = WireReader.of({ bytes, cuts: [] }, state);
  const out: number[] = [];
  while (reader.more()) out.push(reader.element(signed));
  return state.fault ? undefined : out;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
