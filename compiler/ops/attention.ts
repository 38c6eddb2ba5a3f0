import type { OpDef } from './op';

export const attentionOps: readonly OpDef[] = [];
