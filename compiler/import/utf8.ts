/**
 * UTF-8 to text. The compiler runs in hosts without a common `TextDecoder` type, so it has its own;
 * what is not UTF-8 becomes U+FFFD.
 */
export function decodeUtf8(bytes: Uint8Array): string {
  const parts: string[] = [];
  let text = '';
  for (let i = 0; i < bytes.length;) {
    const end = asciiEnd(bytes, i);
    if (end > i) {
      text += ascii(bytes.subarray(i, end));
      i = end;
      if (text.length > 4096) {
        parts.push(text);
        text = '';
      }
      continue;
    }
    const lead = bytes[i] ?? 0;
    const length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    let code = length === 1 ? lead : lead & (0x7f >> length);
    let used = 1;
    let valid = lead < 0x80 || (lead >= 0xc2 && lead <= 0xf4);
    while (valid && used < length) {
      const next = bytes[i + used];
      if (next === undefined || (next & 0xc0) !== 0x80) valid = false;
      else {
        code = (code << 6) | (next & 0x3f);
        used++;
      }
    }
    const shortest = length === 4 ? 0x10000 : length === 3 ? 0x800 : 0;
    if (code < shortest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) valid = false;
    text += valid ? String.fromCodePoint(code) : '\ufffd';
    i += used;
    if (text.length > 4096) {
      parts.push(text);
      text = '';
    }
  }
  return parts.length === 0 ? text : parts.join('') + text;
}

function ascii(bytes: Uint8Array): string {
  // Spread arguments would be copied one by one, which takes most of the time of a large file.
  const text: unknown = Reflect.apply(String.fromCharCode, undefined, bytes);
  return typeof text === 'string' ? text : '';
}

/** Whether the text has more than `most` UTF-16 units, told without decoding it; sure when it says so. */
export function isLonger(bytes: Uint8Array, most: number): boolean {
  if (bytes.length <= most) return false;
  let units = 0;
  for (let i = 0; i < bytes.length; i++) {
    // Every byte that doesn't go on with a character begins one, or stands for U+FFFD.
    if (((bytes[i] ?? 0) & 0xc0) !== 0x80 && ++units > most) return true;
  }
  return false;
}

/** The end of the run of ASCII that starts at `i`, a few thousand bytes on at most. */
function asciiEnd(bytes: Uint8Array, i: number): number {
  const most = Math.min(bytes.length, i + 4096);
  let end = i;
  while (end < most && (bytes[end] ?? 0x80) < 0x80) end++;
  return end;
}
