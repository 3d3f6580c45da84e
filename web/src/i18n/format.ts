import { useLocale } from "use-intl";
import type { Schemas } from "../api/client";

type Money = Schemas["Money"];

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

// cached keeps what is made for a key. To make a formatter takes longer than to use it, and a list has hundreds of values.
function cached<Made>(make: (key: string) => Made): (key: string) => Made {
  const all = new Map<string, Made>();
  return (key) => {
    const made = all.get(key) ?? make(key);
    all.set(key, made);
    return made;
  };
}

const numberFormats = cached((key) => new Intl.NumberFormat(...(JSON.parse(key) as [string, Intl.NumberFormatOptions])));
const numberFormat = (locale: string, options: Intl.NumberFormatOptions = {}) => numberFormats(JSON.stringify([locale, options]));

// formatMoney shows an amount in the minor units of its currency, of which some currencies have none. The digits come
// from the integer: a division would round amounts near 2⁵³.
export function formatMoney(locale: string, { amount_minor, currency }: Money): string {
  const { format, digits, known } = moneyFormat(locale, currency);
  const text = String(Math.abs(amount_minor)).padStart(digits + 1, "0");
  const whole = text.slice(0, text.length - digits);
  const value = `${amount_minor < 0 ? "-" : ""}${whole}${digits > 0 ? `.${text.slice(-digits)}` : ""}`;
  const amount = format.format(value as unknown as number);
  return known ? amount : `${amount} ${currency}`;
}

// An unknown currency of a newer server is shown by its code.
const moneyFormats = cached((key) => {
  const [locale, currency] = JSON.parse(key) as [string, string];
  try {
    const format = new Intl.NumberFormat(locale, { style: "currency", currency });
    return { format, digits: format.resolvedOptions().maximumFractionDigits ?? 2, known: true };
  } catch {
    return { format: numberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 }), digits: 2, known: false };
  }
});
const moneyFormat = (locale: string, currency: string) => moneyFormats(JSON.stringify([locale, currency]));

// digitsOf is the number of digits of the minor units of a currency.
export const digitsOf = (currency: string) => moneyFormat("en", currency).digits;

// majorOf is the text of an amount in major units, as minorOf reads it.
export function majorOf(minor: number, currency: string): string {
  const digits = digitsOf(currency);
  const text = String(minor).padStart(digits + 1, "0");
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

// minorOf reads an amount that a user has entered in major units, or undefined.
export function minorOf(text: string, currency: string): number | undefined {
  const digits = digitsOf(currency);
  const match = /^(\d{1,12})(?:[.,](\d+))?$/.exec(text.trim());
  const fraction = match?.[2] ?? "";
  if (match === null || fraction.length > digits) return undefined;
  return Number(`${match[1]}${fraction.padEnd(digits, "0")}`);
}

// formatDuration shows the two largest units.
export function formatDuration(locale: string, seconds: number): string {
  const units: [number, string][] = [[day, "day"], [hour, "hour"], [minute, "minute"], [1, "second"]];
  const parts: string[] = [];
  let rest = Math.max(0, Math.round(seconds));
  for (const [size, unit] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0 && parts.length < 2) parts.push(numberFormat(locale, { style: "unit", unit, unitDisplay: "short" }).format(count));
    else if (parts.length > 0) break;
  }
  return parts.join(" ") || numberFormat(locale, { style: "unit", unit: "second", unitDisplay: "short" }).format(0);
}

// formatBytes shows binary units, as memory of GPUs has.
export function formatBytes(locale: string, bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${numberFormat(locale, { maximumFractionDigits: 1 }).format(bytes / 1024 ** power)} ${units[power]}`;
}

const isTime = (time: string) => !Number.isNaN(Date.parse(time));

export const useFormat = () => formats(useLocale());

const formats = cached(formatOf);

function formatOf(locale: string) {
  const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
  const date = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  return {
    money: (value: Money) => formatMoney(locale, value),
    minor: (amount_minor: number, currency: string) => formatMoney(locale, { amount_minor, currency }),
    duration: (seconds: number) => formatDuration(locale, seconds),
    bytes: (bytes: number) => formatBytes(locale, bytes),
    number: (value: number, options?: Intl.NumberFormatOptions) => numberFormat(locale, options).format(value),
    dateTime: (time: string) => (isTime(time) ? dateTime.format(new Date(time)) : time),
    date: (time: string) => (isTime(time) ? date.format(new Date(time)) : time),
    ago: (time: string, now: number) => {
      if (!isTime(time)) return time;
      const seconds = Math.round((Date.parse(time) - now) / 1000);
      const [size, unit] = ([[day, "day"], [hour, "hour"], [minute, "minute"], [1, "second"]] as const).find(([size]) => Math.abs(seconds) >= size) ?? [1, "second"];
      return relative.format(Math.trunc(seconds / size), unit);
    },
  };
}
