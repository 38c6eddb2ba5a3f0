import type { OpDef } from './op';

export const shapeOps: readonly OpDef[] = [];
