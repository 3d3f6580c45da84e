// The clock of a computer can be wrong. Ages and runways count from the time of the server, to the second.
let ahead = 0;

// tolerated is the error that a delayed response causes, in milliseconds.
const tolerated = 30_000;

export function noteServerTime(date: string | null) {
  const difference = date === null ? Number.NaN : Date.parse(date) - Date.now();
  if (!Number.isNaN(difference)) ahead = Math.abs(difference) > tolerated ? difference : 0;
}

export const serverNow = () => Date.now() + ahead;
