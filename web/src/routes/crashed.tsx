import { Button } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { Heading } from "../components/a11y/heading";

// A part of an older bundle is missing on the server after an update.
const isMissingPart = (error: unknown) => /dynamically imported module|Importing a module script|Unable to preload/i.test(String(error));

export function Crashed({ error }: ErrorComponentProps) {
  const t = useTranslations("shell");
  return (
    <div role="alert">
      <Heading title={isMissingPart(error) ? t("reloadTitle") : t("crashed")} />
      <p>{isMissingPart(error) ? t("reloadText") : String(error)}</p>
      <Button onClick={() => location.reload()}>{t("reload")}</Button>
    </div>
  );
}
