/** Constants on which kernel and view agree; made by `make types` from files in `nbdist/contract/`:
 * `snapshot.py`, `page.py`, which say what each is. */

export const VERSION = 7;
export const COMM_ID = 'nbdist';
export const TARGET = 'nbdist';
export const MIME_TYPE = 'application/vnd.nbdist.view+json';
export const PROGRAM_MIME_TYPE = 'application/vnd.nbdist.program+json';
export const STILL_ATTRIBUTE = 'data-nbdist-view';
export const LARGE_BYTES = 1048576;
export const DEEPEST = 100;
export const SILENT_SECONDS = 4;
export const MOST_NAMED_DEVICES = 4;
