import { NativeSelect } from "@mantine/core";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../../api/client";

type Props = { value: string | undefined; change: (value: string | undefined) => void };
type Option = { value: string; label: string };

const statuses: Schemas["AllocationStatus"][] = ["requested", "provisioning", "active", "releasing", "released", "failed", "release_failed"];
const ages = ["1", "24", "168", "720"] as const;

// A value of the address that is none of the options stays visible.
function Choice({ label, value = "", change, options }: Props & { label: string; options: Option[] }) {
  const t = useTranslations("adminAllocations");
  const data = [{ value: "", label: t("any") }, ...options];
  const isOption = data.some((option) => option.value === value);
  return <NativeSelect label={label} value={value} onChange={(event) => change(event.currentTarget.value || undefined)} data={isOption ? data : [...data, { value, label: value }]} />;
}

export function States(props: Props) {
  const t = useTranslations("adminAllocations");
  const states = useTranslations("status");
  return <Choice label={t("state")} options={statuses.map((value) => ({ value, label: states(value) }))} {...props} />;
}

// Ages are hours since the request.
export function Ages(props: Props & { label: string }) {
  const t = useTranslations("adminAllocations.ages");
  return <Choice options={ages.map((value) => ({ value, label: t(value) }))} {...props} />;
}
