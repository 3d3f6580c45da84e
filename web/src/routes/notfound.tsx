import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { Heading } from "../components/a11y/heading";

export function NotFound() {
  const t = useTranslations("shell");
  return (
    <>
      <Heading title={t("notFound")} />
      <p>{t("notFoundText")}</p>
      <Link to="/">{t("home")}</Link>
    </>
  );
}
