/** The runner's core: what a host needs to run and measure kernels on a GPU that it provides. */
export type { ExternalRequest, Host, Watch } from './device';
export { bytesText, fail, Faulted, faultOf, replyOf } from './faults';
export { finishProfile, type MeasuredProfile } from './session';
export { Server } from './serve';
export { numbersOf, toStorage, type StorageArray } from './storage';
export type { StoredResult, StoredResults } from './verify';
export type * from './types';
