/** Pieces of arrays and the devices that hold them: computed here from mesh, spec and shape, never sent. */

import { placeIn, product } from './lists';
import type {
  Array as NamedArray,
  Indexed,
  Mesh,
  NamedSharding,
  PerProcess,
  SingleDevice,
} from './snapshot';

export type Slices = readonly (readonly [number, number])[];

/** One value that one device or several hold. Two devices hold copies exactly if they hold the same piece. */
export interface HeldPiece {
  readonly slices: Slices;
  /** Row-major place along the unreduced axes, whose values are still to be added; null if there are none. */
  readonly addend: number | null;
  readonly devices: readonly string[];
}

/**
 * The pieces of an array. `pieces` is ordered by slices, then addend; `of` maps devices to indices
 * in `pieces`.
 */
export interface Holding {
  readonly pieces: readonly HeldPiece[];
  readonly of: ReadonlyMap<string, number>;
  /** Number of values that are to be added for one whole array; 1 if none are. */
  readonly addends: number;
  /** Whether each process has an array of its own under the same name. */
  readonly own: boolean;
}

/** The division of an array in numbers only: cheap enough for every row of a long list. */
export interface Division {
  readonly pieces: number;
  /** Copies of the piece that has the most copies. */
  readonly copies: number;
  readonly addends: number;
  /** Bytes on the device that has the most bytes. */
  readonly bytesPerDevice: number;
}

const whole = (shape: readonly number[]): Slices => shape.map(size => [0, size] as const);

/** Return the sizes of a mesh's axes by name. */
function axisSizes(mesh: Mesh): Map<string, number> {
  return new Map(mesh.axes.map(axis => [axis.name, axis.size]));
}

/** The cut of a dimension of `size` elements into parts, as in `nbdist/pieces.py` and XLA. */
interface Cut {
  readonly size: number;
  /** Number of parts, as the axes ask for. */
  readonly parts: number;
  /** Elements of the longest part. */
  readonly length: number;
  /** Number of different parts: with too few elements, the last parts are all the same empty one. */
  readonly distinct: number;
}

function cutOf(size: number, parts: number): Cut {
  const length = Math.ceil(size / parts);
  const distinct = length ? Math.min(parts, Math.ceil(size / length) + 1) : 1;
  return { size, parts, length, distinct };
}

/** Return the cut of each dimension. */
function cutsOf(array: NamedArray, sharding: NamedSharding, sizes: Map<string, number>): Cut[] {
  return array.shape.map((size, d) =>
    cutOf(size, product((sharding.spec[d] ?? []).map(name => sizes.get(name) ?? 1))),
  );
}

/** Return start and stop of part `number` of a dimension. */
function part({ size, length }: Cut, number: number): readonly [number, number] {
  return [Math.min(size, number * length), Math.min(size, (number + 1) * length)];
}

/** Return the row-major number of the position that `coordinates` has along the axes `names`. */
function along(
  names: readonly string[],
  coordinates: ReadonlyMap<string, number>,
  sizes: ReadonlyMap<string, number>,
): number {
  let number = 0;
  for (const name of names) number = number * (sizes.get(name) ?? 1) + (coordinates.get(name) ?? 0);
  return number;
}

/** Return the slices of piece `number`, counted row-major over the parts of each dimension. */
function slicesAt(cuts: readonly Cut[], number: number): Slices {
  const place = placeIn(
    cuts.map(cut => cut.distinct),
    number,
  );
  return cuts.map((cut, d) => part(cut, place[d] ?? 0));
}

function named(array: NamedArray, sharding: NamedSharding, mesh: Mesh): Holding {
  const sizes = axisSizes(mesh);
  const cuts = cutsOf(array, sharding, sizes);
  const unreduced = mesh.axes.map(axis => axis.name).filter(n => sharding.unreduced.includes(n));
  const addends = product(unreduced.map(name => sizes.get(name) ?? 1));
  const count = product(cuts.map(cut => cut.distinct));
  const devices: string[][] = Array.from({ length: count * addends }, () => []);
  mesh.devices.forEach((key, position) => {
    const place = placeIn([...sizes.values()], position);
    const coordinates = new Map(mesh.axes.map(({ name }, a) => [name, place[a] ?? 0]));
    let number = 0;
    cuts.forEach(({ distinct }, d) => {
      const index = along(sharding.spec[d] ?? [], coordinates, sizes);
      number = number * distinct + Math.min(index, distinct - 1);
    });
    devices[number * addends + along(unreduced, coordinates, sizes)]?.push(key);
  });
  const pieces = devices.map((holders, number) => ({
    slices: slicesAt(cuts, Math.floor(number / addends)),
    addend: unreduced.length ? number % addends : null,
    devices: holders,
  }));
  return held(pieces, addends, false);
}

function held(pieces: readonly HeldPiece[], addends: number, own: boolean): Holding {
  const of = new Map<string, number>();
  pieces.forEach((piece, number) => {
    for (const key of piece.devices) of.set(key, number);
  });
  return { pieces, of, addends, own };
}

function bySlices(a: { readonly slices: Slices }, b: { readonly slices: Slices }): number {
  for (const [d, [start, stop]] of a.slices.entries()) {
    const other = b.slices[d] ?? [0, 0];
    if (start !== other[0]) return start - other[0];
    if (stop !== other[1]) return stop - other[1];
  }
  return 0;
}

function indexed(sharding: Indexed): Holding {
  const pieces = sharding.pieces.map(({ slices, devices }) => ({ slices, devices, addend: null }));
  return held(pieces.sort(bySlices), 1, false);
}

function apart(array: NamedArray, sharding: SingleDevice | PerProcess): Holding {
  const devices = sharding.kind === 'single' ? [sharding.device] : sharding.devices;
  const slices = whole(array.shape);
  const pieces = devices.map(key => ({ slices, addend: null, devices: [key] }));
  return held(pieces, 1, sharding.kind === 'per_process');
}

/**
 * Map each device to the piece of `array` it holds.
 *
 * Returns null if the array's mesh is not among `meshes`.
 */
export function holdingOf(array: NamedArray, meshes: ReadonlyMap<string, Mesh>): Holding | null {
  const { sharding } = array;
  if (sharding.kind === 'indexed') return indexed(sharding);
  if (sharding.kind !== 'named') return apart(array, sharding);
  const mesh = meshes.get(sharding.mesh);
  return mesh ? named(array, sharding, mesh) : null;
}

/**
 * Count pieces and copies without visiting a device, unless the sharding lists them.
 *
 * Returns null if the array's mesh is not among `meshes`.
 */
export function divisionOf(array: NamedArray, meshes: ReadonlyMap<string, Mesh>): Division | null {
  const { sharding, nbytes } = array;
  if (sharding.kind === 'named') {
    const mesh = meshes.get(sharding.mesh);
    if (!mesh) return null;
    const sizes = axisSizes(mesh);
    const cuts = cutsOf(array, sharding, sizes);
    const addends = product(sharding.unreduced.map(name => sizes.get(name) ?? 1));
    const pieces = product(cuts.map(cut => cut.distinct)) * addends;
    const alike = product(cuts.map(cut => cut.parts - cut.distinct + 1));
    const copies = (mesh.devices.length / product(cuts.map(cut => cut.parts)) / addends) * alike;
    const share = product(cuts.map(cut => cut.length / Math.max(1, cut.size)));
    return { pieces, copies, addends, bytesPerDevice: Math.round(nbytes * share) };
  }
  if (sharding.kind === 'indexed') {
    const pieces = sharding.pieces.length;
    const copies = Math.max(0, ...sharding.pieces.map(piece => piece.devices.length));
    const elements = Math.max(0, ...sharding.pieces.map(p => elementsOf(p.slices)));
    const share = elements / Math.max(1, elementsOf(whole(array.shape)));
    return { pieces, copies, addends: 1, bytesPerDevice: nbytes * share };
  }
  const pieces = sharding.kind === 'single' ? 1 : sharding.devices.length;
  return { pieces, copies: 1, addends: 1, bytesPerDevice: nbytes };
}

/** Return how many elements a piece has; 1 for a scalar. */
export function elementsOf(slices: Slices): number {
  return product(slices.map(([start, stop]) => stop - start));
}
