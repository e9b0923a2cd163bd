// Times, counts and words, as people read them.

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });
const STEPS = [[60, "s"], [60, "min"], [24, "h"], [365, "d"]];

/** Return when a receipt was recorded, in milliseconds; its id has them where the receipt has seconds alone. */
export function receiptTime(receipt) {
  const id = /^lfr_([0-9A-HJKMNP-TV-Z]{26})$/.exec(receipt.receipt_id ?? "");
  if (!id) return receipt.at_epoch_s * 1000;
  const found = [...id[1].slice(0, 10)].reduce((sum, one) => sum * 32 + CROCKFORD.indexOf(one), 0);
  // An id that a client chose says nothing of the time.
  return Math.abs(found - receipt.at_epoch_s * 1000) < 120_000 ? found : receipt.at_epoch_s * 1000;
}

/** Return a duration in one unit: `42 s`, `7 min`, `3 h`, `2 d`. */
export function duration(ms) {
  let value = Math.max(0, Math.round(ms / 1000));
  for (const [size, unit] of STEPS) {
    if (value < size || unit === "d") return `${value} ${unit}`;
    value = Math.floor(value / size);
  }
  return "";
}

/** Return how long ago a time is. */
export function ago(ms, now = Date.now()) {
  return now - ms < 1500 ? "now" : `${duration(now - ms)} ago`;
}

/** Return the local time of day, with the day where it is another one. */
export function clock(ms, now = Date.now()) {
  const at = new Date(ms);
  const time = TIME.format(at);
  return at.toDateString() === new Date(now).toDateString() ? time : `${date(ms)} ${time}`;
}

/** Return the whole local time, for titles and details. */
export function moment(ms) {
  const at = new Date(ms);
  return `${date(ms)} ${TIME.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** Return a count with its noun. */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

/** Return bytes in the unit that suits. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  for (; number >= 1000 && step < units.length - 1; step += 1) number /= 1000;
  return `${number.toFixed(step && number < 100 ? 1 : 0)} ${units[step]}`;
}

function date(ms) {
  const at = new Date(ms);
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}
