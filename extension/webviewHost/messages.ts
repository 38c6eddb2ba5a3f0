/**
 * What comes from a page, checked before anything is done with it. The page is ours, but it draws
 * what stands in a person's files, and a page of another version may have been restored: a message of
 * the wrong shape is dropped, never carried out in part.
 */
import type { Progress } from '../../runner/core/types';
import { isBufferType, type Wire, type WireEntry, type WireSlot } from '../../runner/core/wire';
import type { WebviewToHost } from '../contracts/webview';

type Fields = Readonly<Record<string, unknown>>;

export function readMessage(value: unknown): WebviewToHost | undefined {
  if (!isFields(value)) return undefined;
  const { type, id } = value;
  switch (type) {
    case 'ready':
    case 'profile':
    case 'cancelProfile':
    case 'tune':
      return { type };
    case 'selected': {
      const { nodes, kernel, reveal } = value;
      if (!isTexts(nodes) || !isOptionalText(kernel)) return undefined;
      return { type, nodes, reveal: reveal === true, ...(kernel === undefined ? {} : { kernel }) };
    }
    case 'requestCode': {
      const { kernel } = value;
      return isNumber(id) && isText(kernel) ? { type, id, kernel } : undefined;
    }
    case 'requestSteps':
      return isNumber(id) ? { type, id } : undefined;
    case 'requestPlanAt': {
      const { step } = value;
      return isNumber(id) && isNumber(step) ? { type, id, step } : undefined;
    }
    case 'openCode': {
      const { kernel } = value;
      return isText(kernel) ? { type, kernel } : undefined;
    }
    case 'forceFuse': {
      const { from, to } = value;
      return isText(from) && isText(to) ? { type, from, to } : undefined;
    }
    case 'pageProgress': {
      const { progress } = value;
      return isNumber(id) && isProgress(progress) ? { type, id, progress } : undefined;
    }
    case 'pageDone': {
      const { wire } = value;
      return isNumber(id) && isWire(wire) ? { type, id, wire } : undefined;
    }
    case 'exportSvg': {
      const { svg } = value;
      return isText(svg) ? { type, svg } : undefined;
    }
    case 'log': {
      const { level, message } = value;
      return (level === 'info' || level === 'error') && isText(message)
        ? { type, level, message }
        : undefined;
    }
    default:
      return undefined;
  }
}

/** A record, so that a stage that is added can't be forgotten here. */
const STAGES: Readonly<Record<Progress['stage'], true>> = {
  device: true,
  compile: true,
  reference: true,
  unfused: true,
  fused: true,
  trial: true,
  verify: true,
};

function isProgress(value: unknown): value is Progress {
  return (
    isFields(value) &&
    isText(value['stage']) &&
    Object.hasOwn(STAGES, value['stage']) &&
    isNumber(value['done']) &&
    isNumber(value['total']) &&
    isOptionalText(value['kernel'])
  );
}

function isWire(value: unknown): value is Wire {
  return (
    isFields(value) &&
    isSlot(value['root']) &&
    isList(value['table']) &&
    value['table'].every(isEntry)
  );
}

function isEntry(value: unknown): value is WireEntry {
  if (!isFields(value)) return false;
  const { kind, keys, slots, type, buffer } = value;
  switch (kind) {
    case 'object':
      return isTexts(keys) && isList(slots) && slots.every(isSlot);
    case 'array':
    case 'map':
    case 'set':
      return isList(slots) && slots.every(isSlot);
    case 'buffer':
      return isBufferType(type) && typeof buffer === 'object' && buffer !== null;
    default:
      return false;
  }
}

function isSlot(value: unknown): value is WireSlot {
  if (value === null || ['boolean', 'number', 'string'].includes(typeof value)) return true;
  return isFields(value) && (isNumber(value['ref']) || isText(value['special']));
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTexts(value: unknown): value is readonly string[] {
  return isList(value) && value.every(isText);
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || isText(value);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
