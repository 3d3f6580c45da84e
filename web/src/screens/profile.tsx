import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command, Copy } from "../components/system/copy";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { useSession } from "../session/session";
import { Sessions } from "./profile/sessions";

export function Profile() {
  const t = useTranslations("profile");
  const query = useQuery({ queryKey: keys.sessions, queryFn: () => unwrap(api.GET("/api/v3/access/sessions")), staleTime: stale.list });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Facts />
      <Content query={query}>{({ sessions }) => <Sessions part={partOf(sessions, query.refetch)} />}</Content>
      <Command text="gpuaas session list" label={t("command")} />
    </div>
  );
}

function Facts() {
  const t = useTranslations("profile");
  const { me } = useSession();
  const facts: [string, string | undefined][] = [
    [t("name"), me.user?.name],
    [t("email"), me.user?.email],
    [t("role"), me.user?.role],
    [t("tenant"), me.tenant && t("tenantRole", { tenant: me.tenant.name, role: me.tenant.role })],
  ];
  return (
    <section className="panel">
      <h2>{t("account")}</h2>
      <dl className="facts">
        {facts.map(([name, value]) => value !== undefined && <Fact key={name} name={name} value={value} />)}
        {me.user !== undefined && (
          <>
            <dt>{t("id")}</dt>
            <dd>
              {me.user.id} <Copy text={me.user.id} label={t("copyId")} />
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
