import { useCallback } from "react";
import { useTranslations } from "use-intl";
import { terminal } from "../../i18n/en/terminal";

// useReason returns the text of the reason of an end. The error of a token is a sentence of the API, and a newer server may
// have other reasons.
export function useReason() {
  const t = useTranslations("terminal");
  return useCallback((reason: string) => (Object.hasOwn(terminal.reasons, reason) ? t(`reasons.${reason as keyof typeof terminal.reasons}`) : reason), [t]);
}
