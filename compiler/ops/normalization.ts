import type { OpDef } from './op';

export const normalizationOps: readonly OpDef[] = [];
