import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type AllocationFilter, keys, stale } from "../../query/keys";

const statuses: Schemas["AllocationStatus"][] = ["requested", "provisioning", "active", "releasing", "released", "failed", "release_failed"];

const newest = "-created_at";
const sorts = ["created_at", "name", "status", "sku", "expires_at"] as const;

export function Filters({ filter, filtered }: { filter: AllocationFilter; filtered: boolean }) {
  const t = useTranslations("allocations");
  const states = useTranslations("status");
  const navigate = useNavigate({ from: "/allocations" });
  const skus = useQuery({ queryKey: keys.skus, queryFn: () => unwrap(api.GET("/api/v1/skus")), staleTime: stale.catalogue });
  const set = (change: AllocationFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const options = (any: string, values: { value: string; label: string }[], chosen?: string) => [
    { value: "", label: any },
    ...values,
    // A value of the address that this list lacks stays visible.
    ...(chosen !== undefined && values.every(({ value }) => value !== chosen) ? [{ value: chosen, label: chosen }] : []),
  ];
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        set({ q: String(new FormData(event.currentTarget).get("q") ?? "") || undefined });
      }}
    >
      <NativeSelect
        label={t("status")}
        value={filter.status ?? ""}
        onChange={(event) => set({ status: event.currentTarget.value || undefined })}
        data={options(t("anyStatus"), statuses.map((value) => ({ value, label: states(value) })), filter.status)}
      />
      <NativeSelect
        label={t("sku")}
        value={filter.sku ?? ""}
        onChange={(event) => set({ sku: event.currentTarget.value || undefined })}
        data={options(t("anySku"), (skus.data?.items ?? []).map(({ name }) => ({ value: name, label: name })), filter.sku)}
      />
      <NativeSelect
        label={t("sort")}
        value={filter.sort ?? newest}
        onChange={(event) => set({ sort: event.currentTarget.value === newest ? undefined : event.currentTarget.value })}
        data={options(t("sorts.newest"), sorts.map((value) => ({ value, label: t(`sorts.${value}`) })), filter.sort).map((each) => (each.value === "" ? { ...each, value: newest } : each))}
      />
      <TextInput label={t("part")} name="q" maxLength={63} defaultValue={filter.q ?? ""} />
      {filter.name !== undefined && <span>{t("exactly", { name: filter.name })}</span>}
      <Button type="submit" variant="default">
        {t("filter")}
      </Button>
      {filtered && (
        <Link to="/allocations" search={({ columns }) => ({ columns })}>
          {t("clear")}
        </Link>
      )}
    </form>
  );
}
