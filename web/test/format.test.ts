import { expect, test, vi } from "vitest";
import { formatBytes, formatDuration, formatMoney, minorOf } from "../src/i18n/format";

const money = (amount_minor: number, currency = "EUR", locale = "en") => formatMoney(locale, { amount_minor, currency });

test("amounts have the minor units of their currency", () => {
  expect(money(289)).toBe("€2.89");
  expect(money(-5)).toBe("-€0.05");
  expect(money(0)).toBe("€0.00");
  expect(money(500, "JPY")).toBe("¥500");
  expect(money(1_234, "KWD").replace(/\s/g, " ")).toBe("KWD 1.234");
  expect(money(289, "EUR", "de").replace(/\s/g, " ")).toBe("2,89 €");
});

test("an amount near 2^53 is exact", () => {
  expect(money(Number.MAX_SAFE_INTEGER)).toBe("€90,071,992,547,409.91");
});

test("an unknown currency has its code", () => {
  expect(money(100, "??")).toBe("1.00 ??");
});

test("an entered amount is read exactly, or rejected", () => {
  expect(["50", "50.5", "50,05", " 7 "].map((text) => minorOf(text, "EUR"))).toEqual([5_000, 5_050, 5_005, 700]);
  expect(["", "-1", "1.234", "1e3", "=1", "NaN", "1.5.5"].map((text) => minorOf(text, "EUR"))).toEqual(Array(7).fill(undefined));
  expect(minorOf("50.5", "JPY")).toBeUndefined();
});

test("durations have two units, and bytes binary ones", () => {
  expect(formatDuration("en", 616_017)).toBe("7 days 3 hr");
  expect(formatDuration("en", 0)).toBe("0 sec");
  expect(formatBytes("en", 80 * 2 ** 30)).toBe("80 GiB");
});

test("a formatter is made once for a locale and its options", () => {
  const made = vi.fn();
  class Counted extends Intl.NumberFormat {
    constructor(...options: ConstructorParameters<typeof Intl.NumberFormat>) {
      super(...options);
      made();
    }
  }
  vi.stubGlobal("Intl", { ...Intl, NumberFormat: Counted });
  for (let index = 0; index < 3; index++) {
    formatMoney("fr", { amount_minor: 100 + index, currency: "CHF" });
    formatDuration("fr", 90 + index);
  }
  vi.unstubAllGlobals();
  expect(made).toHaveBeenCalledTimes(3);
});
