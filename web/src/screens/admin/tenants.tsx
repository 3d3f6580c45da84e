import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { useListControls } from "../../components/system/list-controls";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { useSession } from "../../session/session";
import { isLabel } from "../launch/request";

type Tenant = Schemas["Tenant"];

export function Tenants() {
  const t = useTranslations("tenants");
  const { may } = useSession();
  const all = useMemo(
    (): Column<Tenant>[] => [
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/admin/tenants/$id" params={{ id }}>{name}</Link> },
      { id: "currency", header: t("currency"), cell: ({ currency }) => currency },
      { id: "id", header: t("id"), cell: ({ id }) => id },
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
    ],
    [t],
  );
  const [columns, controls] = useListControls("tenants", all);
  return (
    <div className="stack">
      <Heading title={t("title")} />
      {controls}
      <CursorTable
        label={t("title")}
        queryKey={keys.tenantList}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/tenants", { params: { query: { cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("none")} />}
      />
      {may("createTenant") && <Create />}
      <Command text="gpuaas admin tenants" label={t("command")} />
    </div>
  );
}

const isCurrency = (text: string) => text === "" || /^[A-Z]{3}$/.test(text);

function Create() {
  const t = useTranslations("tenants");
  const toast = useToast();
  const navigate = useNavigate();
  const [draft, change, done] = useDraft("tenant", { name: "", currency: "" });
  const action = useAction((body: Schemas["TenantRequest"], key) => unwrap(api.POST("/api/v1/admin/tenants", { params: { header: { "X-Idempotency-Key": key } }, body })), [keys.tenants]);
  const { name, currency } = draft;
  const complete = isLabel(name) && isCurrency(currency);
  const create = () =>
    action.start(currency === "" ? { name } : { name, currency }, (tenant, shown) => {
      done();
      toast(t("isCreated", { name: tenant.name }));
      if (shown) void navigate({ to: "/admin/tenants/$id", params: { id: tenant.id } });
    });
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h2>{t("create")}</h2>
      <div className="row">
        <TextInput label={t("name")} maxLength={63} autoComplete="off" value={name} error={name === "" || isLabel(name) ? undefined : t("nameWrong")} onChange={(event) => change({ name: event.currentTarget.value })} />
        <TextInput
          label={t("currency")}
          description={t("currencyNote")}
          maxLength={3}
          value={currency}
          error={isCurrency(currency) ? undefined : t("currencyWrong")}
          onChange={(event) => change({ currency: event.currentTarget.value })}
        />
        <Button type="submit" disabled={!complete} loading={action.pending}>
          {t("createAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
