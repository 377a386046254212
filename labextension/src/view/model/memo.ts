/** Memory of the last result of a pure function. */

/** Return `compute` with a memory: it computes again only if an argument differs from the call before. */
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
