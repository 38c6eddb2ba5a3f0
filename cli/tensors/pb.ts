/**
 * TensorProto files (`.pb`), as ONNX's test data has them.
 */
import { readTensor } from '../../compiler/import/onnx/proto';
import { convertTensor } from '../../compiler/import/onnx/tensors';
import { WireReader, type WireState } from '../../compiler/import/onnx/wire';
import { bad, encodeNumbers, good, type HostTensor, type Outcome } from './tensor';

export function readPb(bytes: Uint8Array): Outcome<HostTensor> {
  const state: WireState = {};
  const proto = readTensor(WireReader.of({ bytes, cuts: [] }, state));
  if (state.fault) return bad(`at byte ${state.fault.offset} ${state.fault.message}`);
  const r = convertTensor(proto);
  if (!r.ok) return bad(r.message);
  const { type, data } = r.tensor;
  const made = { name: proto.name, dtype: type.dtype, shape: proto.dims };
  switch (data.kind) {
    case 'bytes':
      return good({ ...made, bytes: data.bytes });
    case 'numbers':
      return good({ ...made, bytes: encodeNumbers(data.values, type.dtype) });
    case 'fill':
    case 'external':
    case 'inModel':
      return bad('its contents are in another file');
  }
}
