import { useCallback } from "react";
import { useTranslations } from "use-intl";
import en from "../../i18n/en";

// useWords returns the text of a value of an enum. A value of a newer server is its own text.
export function useWords() {
  const t = useTranslations("words");
  return useCallback((value: string): string => (Object.hasOwn(en.words, value) ? t(value as keyof typeof en.words) : value), [t]);
}
