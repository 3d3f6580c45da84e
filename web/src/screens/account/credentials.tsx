import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Remove } from "../../components/system/remove";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { keys } from "../../query/keys";
import { CreateCredential } from "./create-credential";

type Account = Pick<Schemas["ServiceAccount"], "id" | "name">;
type Credential = Schemas["Credential"];

export function Credentials({ account }: { account: Account }) {
  const t = useTranslations("accounts");
  const columns = useMemo(
    (): Column<Credential>[] => [
      { id: "created", header: t("since"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "kind", header: t("kind"), cell: ({ federation }) => (federation === undefined ? t("secret") : t("federated", federation)) },
      { id: "used", header: t("used"), cell: ({ last_used_at }) => (last_used_at === undefined ? t("never") : <Time at={last_used_at} />) },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("noExpiry") : <Time at={expires_at} />) },
      { id: "revoke", header: t("change"), cell: (each) => (each.revoked_at === undefined ? <Revoke account={account} credential={each} /> : t("isRevoked")) },
    ],
    [t, account],
  );
  return (
    <section className="panel stack">
      <h2>{t("credentials")}</h2>
      <CursorTable
        label={t("credentials")}
        queryKey={keys.credentials(account.id)}
        load={(cursor) => unwrap(api.GET("/api/v1/service-accounts/{service_account_id}/credentials", { params: { path: { service_account_id: account.id }, query: { cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("noCredentials")} />}
      />
      <CreateCredential account={account} />
      <Command text={`gpuaas service-account credentials ${account.name}`} label={t("copyCredentials")} />
    </section>
  );
}

function Revoke({ account, credential: { id } }: { account: Account; credential: Credential }) {
  const t = useTranslations("accounts");
  return (
    <Remove
      action={t("revoke")}
      name={id}
      text={t("revokeText")}
      done={t("revoked")}
      typed={false}
      run={(key) =>
        unwrap(
          api.DELETE("/api/v1/service-accounts/{service_account_id}/credentials/{credential_id}", {
            params: { path: { service_account_id: account.id, credential_id: id }, header: { "X-Idempotency-Key": key } },
          }),
        )
      }
      invalidates={[keys.credentials(account.id)]}
    />
  );
}
