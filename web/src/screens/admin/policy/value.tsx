import { useTranslations } from "use-intl";
import type { Schemas } from "../../../api/client";
import { useFormat } from "../../../i18n/format";

export type Key = Schemas["PolicyKey"];
export type Value = Schemas["PolicyValue"];

// useValue returns the text of a value of a key.
export function useValue() {
  const t = useTranslations("policies");
  const { number } = useFormat();
  return ({ unit }: Pick<Key, "unit">, value: Value): string => {
    if (typeof value === "boolean") return value ? t("on") : t("off");
    if (typeof value === "number") return unit === undefined ? number(value) : t("unitText", { value: number(value), unit });
    if (typeof value === "string") return value || t("empty");
    return value.join(", ") || t("list");
  };
}

// valueOf reads what a user has entered as a value of the key, or undefined. The server also checks a text by its pattern.
export function valueOf({ type, minimum, maximum, values = [] }: Key, text: string): Value | undefined {
  const entered = text.trim();
  const items = entered === "" ? [] : entered.split(",").map((item) => item.trim());
  const among = (item: string) => values.includes(item);
  switch (type) {
    case "bool":
      return entered === "true" || entered === "false" ? entered === "true" : undefined;
    case "int":
    case "minor": {
      const number = Number(entered);
      return /^-?\d{1,15}$/.test(entered) && number >= (minimum ?? number) && number <= (maximum ?? number) ? number : undefined;
    }
    case "enum":
      return among(entered) ? entered : undefined;
    case "list":
      return items.every(among) ? items : undefined;
    default:
      return entered;
  }
}

// textOf is the text of a value in a field of a form.
export const textOf = (value: Value): string => (Array.isArray(value) ? value.join(", ") : String(value));
