import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { Filter } from "../../components/system/filter";
import { FilterForm } from "../../components/system/filter-form";
import { type PaymentFilter } from "../../query/keys";
import { Disputes } from "./payments/disputes";
import { Refunds } from "./payments/refunds";
import { TopUps } from "./payments/topups";

// stuck are the top-ups that an operator should check.
const statuses: ("stuck" | Schemas["PaymentStatus"])[] = ["stuck", "initiated", "checkout_completed", "credited", "failed_reconcile", "expired"];

export function Payments() {
  const t = useTranslations("payments");
  const { columns: _, ...filter } = useSearch({ from: "/admin/payments" });
  const navigate = useNavigate({ from: "/admin/payments" });
  const set = (change: PaymentFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm fields={[{ name: "tenant", label: t("tenantId"), most: 36 }]} filter={filter} set={set}>
        <Filter label={t("status")} any={t("anyStatus")} values={statuses} value={filter.status ?? ""} change={(status) => set({ status })} />
      </FilterForm>
      <TopUps filter={filter} />
      <Refunds tenant={filter.tenant} />
      <Disputes tenant={filter.tenant} />
      <Command text={commandOf(filter)} label={t("command")} />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = ({ status, tenant }: PaymentFilter) =>
  ["gpuaas admin payments", ...Object.entries({ status, tenant }).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");
