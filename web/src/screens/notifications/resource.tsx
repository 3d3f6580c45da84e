import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { useSession } from "../../session/session";

// Resource links the screen of the object of a notification. An object without a screen for this user has none.
export function Resource({ kind, urn }: { kind: string; urn: string }) {
  const t = useTranslations("notifications");
  const { may } = useSession();
  const parts = urn.split(":");
  const [type, id] = [parts.at(-2) ?? "", parts.at(-1) ?? ""];
  if (kind === "dead_letter") return may("listDeadLetters") && <Link to="/admin/events">{t("deadLetters")}</Link>;
  if (type === "allocation") return <Link to="/allocations/$id" params={{ id }}>{t("allocation")}</Link>;
  if (type === "webhook") return <Link to="/webhooks/$id" params={{ id }}>{t("webhook")}</Link>;
  if (kind === "access_lost") return null;
  if (type === "node") return may("listAdminNodes") && <Link to="/fleet">{t("node")}</Link>;
  return may("getBalance") && <Link to="/billing">{t("billing")}</Link>;
}
