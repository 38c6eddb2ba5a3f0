/**
 * The protobuf wire format: a cursor over the bytes of one message.
 *
 * Vocabulary
 *  - *field*: a number and a wire type (varint, 64-bit, length-delimited, 32-bit), then its contents.
 *  - *view*: a `subarray` of the file. Length-delimited contents are handed out as views.
 *  - *fault*: the first thing found wrong. It is sticky: from then on every reader of the file is at
 *    its end and every read gives nothing, so decoding stops by itself, without exceptions.
 *
 * Why not a protobuf library: generated code copies `bytes` fields or decodes the whole message into
 * objects, builds its types at run time or brings the whole of ONNX's schema, and throws on bad
 * input. Models are mostly weights, which must stay views; what is needed of the format is this page.
 */
import { decodeUtf8 } from '../utf8';

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

export class WireReader {
  /** Of the field that `next` moved to. */
  field = 0;
  wireType = 0;
  private pos: number;

  constructor(
    private readonly file: Uint8Array,
    private readonly state: WireState,
    start = 0,
    private readonly end = file.length,
    private readonly depth = 0,
  ) {
    this.pos = start;
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

  failed(): boolean {
    return this.state.fault !== undefined;
  }

  fail(message: string): void {
    this.state.fault ??= { message, offset: this.pos };
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

  /** A view of the contents. */
  bytes(): Uint8Array {
    const span = this.span();
    return this.file.subarray(span.start, span.end);
  }

  string(): string {
    return decodeUtf8(this.bytes());
  }

  /** A reader of the contents as a message. */
  message(): WireReader {
    const span = this.span();
    if (this.depth >= MAX_DEPTH) this.fail(`messages are nested more than ${MAX_DEPTH} deep`);
    return new WireReader(this.file, this.state, span.start, span.end, this.depth + 1);
  }

  /** Appends a repeated integer field: packed, or one element. */
  ints(into: number[], signed = true): void {
    if (this.wireType !== DELIMITED) {
      into.push(signed ? this.int() : this.uint());
      return;
    }
    const packed = this.message();
    while (packed.more()) into.push(packed.readVarint(signed));
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

  private span(): { start: number; end: number } {
    const nothing = { start: this.pos, end: this.pos };
    if (!this.expect(DELIMITED)) return nothing;
    const length = this.readVarint();
    if (this.failed()) return nothing;
    const start = this.pos;
    if (length > this.end - start) {
      this.fail(
        `field ${this.field} says it has ${length} bytes, but ${this.end - start} are left`,
      );
      return nothing;
    }
    this.pos = start + length;
    return { start, end: this.pos };
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

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
