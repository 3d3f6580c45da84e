import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, type Tagged, api, tagged, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command, Copy } from "../components/system/copy";
import { Failure } from "../components/system/failure";
import { Remove } from "../components/system/remove";
import { Content } from "../components/system/section";
import { Time } from "../components/system/time";
import { useToast } from "../components/system/toasts";
import { useAction } from "../query/action";
import { keys, stale } from "../query/keys";
import { useRecent } from "../session/recent";
import { Credentials } from "./account/credentials";

type Account = Schemas["ServiceAccount"];

export function ServiceAccount() {
  const { id } = useParams({ from: "/service-accounts/$id" });
  const t = useTranslations("accounts");
  const query = useQuery({
    queryKey: keys.serviceAccount(id),
    queryFn: () => tagged(api.GET("/api/v1/service-accounts/{service_account_id}", { params: { path: { service_account_id: id } } })),
    staleTime: stale.list,
  });
  useRecent(query.data?.value.name);
  return (
    <div className="stack">
      <Heading title={query.data?.value.name ?? t("fallback")} />
      <Content query={query}>
        {({ value, etag }) => (
          <div className="stack">
            <Facts account={value} />
            <div className="row">
              <Toggle account={{ value, etag }} />
              <Delete account={{ value, etag }} />
            </div>
            <Credentials account={value} />
            <Command text={`gpuaas service-account get ${value.name}`} label={t("copyGet")} />
          </div>
        )}
      </Content>
    </div>
  );
}

function Facts({ account }: { account: Account }) {
  const t = useTranslations("accounts");
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <dl className="facts">
        <dt>{t("state")}</dt>
        <dd>{account.disabled ? t("disabled") : t("enabled")}</dd>
        <dt>{t("scopes")}</dt>
        <dd>{account.scopes.join(", ")}</dd>
        <dt>{t("used")}</dt>
        <dd>{account.last_used_at === undefined ? t("never") : <Time at={account.last_used_at} />}</dd>
        <dt>{t("project")}</dt>
        <dd>
          <Link to="/projects/$id" params={{ id: account.project_id }}>
            {t("toProject")}
          </Link>
        </dd>
        <dt>{t("id")}</dt>
        <dd>
          {account.id} <Copy text={account.id} label={t("copyId")} />
        </dd>
        <dt>{t("urn")}</dt>
        <dd>
          {account.urn} <Copy text={account.urn} label={t("copyUrn")} />
        </dd>
      </dl>
    </section>
  );
}

// Toggle disables the account, and enables it again: all of its credentials stop and work with it.
function Toggle({ account: { value, etag } }: { account: Tagged<Account> }) {
  const t = useTranslations("accounts");
  const toast = useToast();
  const action = useAction(
    (disabled: boolean, key) =>
      unwrap(
        api.PATCH("/api/v1/service-accounts/{service_account_id}", {
          params: { path: { service_account_id: value.id }, header: { "If-Match": etag, "X-Idempotency-Key": key } },
          body: { disabled },
        }),
      ),
    [keys.serviceAccount(value.id), keys.project(value.project_id)],
  );
  const toggle = () => action.start(!value.disabled, ({ name, disabled }) => toast(disabled ? t("isDisabled", { name }) : t("isEnabled", { name })));
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} onClick={toggle}>
        {value.disabled ? t("enable") : t("disable")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

function Delete({ account: { value, etag } }: { account: Tagged<Account> }) {
  const t = useTranslations("accounts");
  const navigate = useNavigate();
  const { id, name, project_id } = value;
  return (
    <Remove
      action={t("delete")}
      name={name}
      text={t("deleteText")}
      done={t("deleted", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/service-accounts/{service_account_id}", { params: { path: { service_account_id: id }, header: { "If-Match": etag, "X-Idempotency-Key": key } } }))}
      invalidates={[keys.project(project_id)]}
      rereads={[keys.serviceAccount(id), keys.project(project_id)]}
      after={() => void navigate({ to: "/projects/$id", params: { id: project_id } })}
    />
  );
}
