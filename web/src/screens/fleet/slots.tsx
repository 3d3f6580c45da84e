import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { useFormat } from "../../i18n/format";

type Props = { node: Schemas["Node"] };

export function Slots({ node: { free, slots, quarantined } }: Props) {
  const t = useTranslations("fleet");
  const { number } = useFormat();
  const values = { free: number(free), slots: number(slots), quarantined: number(quarantined) };
  return <>{quarantined > 0 ? t("slotsQuarantined", values) : t("slotsText", values)}</>;
}

// Placement is whether the platform places new allocations on the node.
export function Placement({ node: { cordoned } }: Props) {
  const t = useTranslations("fleet");
  return <>{cordoned ? t("cordoned") : t("open")}</>;
}
