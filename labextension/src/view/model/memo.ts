/** Remembering the last result of a pure function. */

/** `compute`, recomputed only when an argument is not the one of the call before. */
export function remember<Arguments extends readonly unknown[], Result>(
  compute: (...inputs: Arguments) => Result,
): (...inputs: Arguments) => Result {
  let last: { readonly inputs: Arguments; readonly result: Result } | null = null;
  return (...inputs) => {
    if (last?.inputs.every((input, i) => Object.is(input, inputs[i]))) return last.result;
    last = { inputs, result: compute(...inputs) };
    return last.result;
  };
}
