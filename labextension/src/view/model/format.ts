/** Numbers and the field's notations as text. */

import { grouped } from './lists';
import type { Slices } from './pieces';
import type { Array as NamedArray, Device, Mesh, NamedSharding } from './snapshot';

const SHORT_DTYPES: Readonly<Record<string, string>> = {
  float64: 'f64',
  float32: 'f32',
  float16: 'f16',
  bfloat16: 'bf16',
  int64: 'i64',
  int32: 'i32',
  int16: 'i16',
  int8: 'i8',
  int4: 'i4',
  uint64: 'u64',
  uint32: 'u32',
  uint16: 'u16',
  uint8: 'u8',
  uint4: 'u4',
  complex64: 'c64',
  complex128: 'c128',
};

/** Return JAX's own short name of a dtype (`float32` → `f32`); other dtypes as they are. */
export const dtypeText = (dtype: string): string => SHORT_DTYPES[dtype] ?? dtype;

/** Return dtype and shape: `f32[512, 256]`. */
export const typeText = (array: Pick<NamedArray, 'dtype' | 'shape'>): string =>
  `${dtypeText(array.dtype)}[${array.shape.join(', ')}]`;

/** Return slices as text: `[0:128, 128:256]`; `[]` for a scalar. */
export const slicesText = (slices: Slices): string => `[${dimensionTexts(slices).join(', ')}]`;

/** Return the slice of each dimension as text: `0:128`. */
export const dimensionTexts = (slices: Slices): string[] =>
  slices.map(([start, stop]) => `${start}:${stop}`);

/** Characters of a text above which it scrolls in a few lines: the error of a process may have 10,000. */
export const LONG = 600;

/** Where a name may break into lines: after its dots, brackets and underscores. */
export const NAME_BREAKS = /(?<=[.\]_])/;

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/**
 * Return bytes in units of 1,024: `18.4 MB`.
 *
 * At most one decimal, none from 100 up, halves rounded up; as `bytes_text` in
 * `nbdist/notation.py` writes them.
 */
export function bytesText(bytes: number): string {
  let unit = 0;
  let value = bytes;
  // 1023.6 would be written as 1024.
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${Number(value.toFixed(value >= 99.95 ? 0 : 1))} ${UNITS[unit] ?? ''}`;
}

/** Return a duration: `0.1 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function secondsText(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Most ranges that are all written; if there are more, only the first ones are. */
const MOST_RANGES = 8;

/** Return numbers as sorted ranges, `0–3, 6`; many ranges end with the count of all numbers: `0, 2, … (40)`. */
export function rangesText(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; i++) {
    const first = sorted[i] ?? 0;
    while ((sorted[i + 1] ?? NaN) === (sorted[i] ?? NaN) + 1) i++;
    const last = sorted[i] ?? 0;
    if (first === last) parts.push(`${first}`);
    else parts.push(last === first + 1 ? `${first}, ${last}` : `${first}–${last}`);
  }
  if (parts.length <= MOST_RANGES) return parts.join(', ');
  return `${parts.slice(0, MOST_RANGES - 2).join(', ')}, … (${sorted.length})`;
}

/** Return a number with its noun: `1 process`, `4 processes`. */
export const countText = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString('en-US')} ${count === 1 ? one : many}`;

/** Return processes by their ids: `process 3`, `processes 0–3`. */
export const processesText = (ids: readonly number[]): string =>
  `${ids.length === 1 ? 'process' : 'processes'} ${rangesText(ids)}`;

/** Numbers of devices among those of their process, by key. */
export type DeviceNumbers = ReadonlyMap<string, number>;

/**
 * Number the devices of each process from 0 in the order of JAX's ids, which is that of
 * `jax.local_devices()`; as `DeviceNames` in `nbdist/view/status.py`.
 */
export function deviceNumbers(devices: Iterable<Device>): DeviceNumbers {
  const sorted = [...devices].sort((a, b) => a.process_id - b.process_id || a.id - b.id);
  const processes = grouped(sorted, device => device.process_id);
  return new Map(
    [...processes.values()].flatMap(own => own.map(({ key }, i) => [key, i] as const)),
  );
}

/** Return a device's name: `process 1 · device 0`; `process 1 · JAX id 2048` if it was not reported. */
export function deviceText(key: string, numbers: DeviceNumbers): string {
  const [process = '', id = ''] = key.split(':');
  const number = numbers.get(key);
  return `process ${process} · ${number === undefined ? `JAX id ${id}` : `device ${number}`}`;
}

/** Return a device's name for narrow places: `p1 · d0`. */
export function deviceShort(key: string, numbers: DeviceNumbers): string {
  const [process = '', id = ''] = key.split(':');
  const number = numbers.get(key);
  return `p${process} · ${number === undefined ? `id ${id}` : `d${number}`}`;
}

/** Return the axes of a mesh: `data=4 × model=2`. */
export const meshText = (mesh: Mesh): string =>
  mesh.axes.map(axis => `${axis.name}=${axis.size}`).join(' × ') || 'no axes';

/** Return one dimension of a spec as JAX prints it: `None`, `'data'`, `('pod', 'data')`. */
function entryText(names: readonly string[]): string {
  if (names.length === 0) return 'None';
  const quoted = names.map(name => `'${name}'`).join(', ');
  return names.length === 1 ? quoted : `(${quoted})`;
}

/**
 * Return a loss or another measure with three significant digits, whole from 100 up: `0.312`,
 * `1534`, `1.2e-5`.
 */
export function metricText(value: number): string {
  if (Math.abs(value) >= 100) return String(Math.round(value));
  const short = Number(value.toPrecision(3));
  return short !== 0 && Math.abs(short) < 1e-4 ? short.toExponential() : String(short);
}

/** Return a spec, `P('data', None)`, with unreduced axes as JAX prints them. */
export function specText(sharding: NamedSharding): string {
  const entries = sharding.spec.map(entryText);
  if (sharding.unreduced.length) {
    entries.push(`unreduced={${sharding.unreduced.map(name => `'${name}'`).join(', ')}}`);
  }
  return `P(${entries.join(', ')})`;
}

/** Return how the array lies, in words or as a spec. */
export function shardingText(array: NamedArray): string {
  const { sharding } = array;
  if (sharding.kind === 'named') return specText(sharding);
  if (sharding.kind === 'single') return 'one device';
  return sharding.kind === 'per_process' ? 'each process its own' : 'by index';
}

/** Return the memory kind if it is not the one that a device uses by default, else null. */
export function otherMemoryKind(array: NamedArray): string | null {
  const kind = array.sharding.memory_kind;
  return kind === null || kind === 'device' ? null : kind;
}
