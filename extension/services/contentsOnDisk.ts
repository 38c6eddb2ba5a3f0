/** Contents of tensors that the compiler left in files, read where the extension host has a disk. */
import { readExternal } from '../../runner/node/external';
import { readModel } from '../../runner/node/ranges';
import type { ReadContents } from './pageContents';

export const readContents: ReadContents = async (data, { modelFile, modelFolder }) => {
  const { offset, length } = data;
  if (length === undefined) return undefined;
  if (data.kind === 'inModel') return modelFile && readModel(modelFile, { offset, length });
  if (modelFolder === undefined) return undefined;
  return readExternal({ folder: modelFolder, location: data.location, offset, length });
};
