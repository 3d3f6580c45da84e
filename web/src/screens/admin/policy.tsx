import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { Facts } from "../../components/system/facts";
import { Content } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import { useRecent } from "../../session/recent";
import { useSession } from "../../session/session";
import { PolicyForm } from "./policy/form";
import { Settings } from "./policy/settings";
import { type Key, useValue } from "./policy/value";

export function Policy() {
  const { key } = useParams({ from: "/admin/policies/$key" });
  const t = useTranslations("policies");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.policy(key),
    queryFn: () => unwrap(api.GET("/api/v1/admin/policies", { params: { query: { prefix: key, limit: 200 } } })),
    staleTime: stale.list,
  });
  useRecent(query.data?.items.find((each) => each.key === key)?.key);
  return (
    <div className="stack">
      <Heading title={key} />
      <Content query={query} isEmpty={({ items }) => items.every((each) => each.key !== key)} empty={<Empty text={t("unknown")} />}>
        {({ items }) =>
          items.filter((each) => each.key === key).map((policy) => (
            <div key={policy.key} className="stack">
              <About policy={policy} />
              <Settings policy={policy} />
              {may("putPolicy") && policy.not_in_force === undefined && <PolicyForm policy={policy} />}
            </div>
          ))
        }
      </Content>
      <Command text={`gpuaas policy get '${key.replaceAll("'", "")}'`} label={t("oneCommand")} />
    </div>
  );
}

// About is what a key does: its meaning, the values it allows, and the functions that read it.
function About({ policy }: { policy: Key }) {
  const t = useTranslations("policies");
  const { number } = useFormat();
  const text = useValue();
  const { minimum, maximum, not_in_force: reason } = policy;
  return (
    <section className="panel">
      <h2>{t("effect")}</h2>
      <p>{policy.meaning}</p>
      {reason !== undefined && <p className="failure">{t("notInForce", { reason })}</p>}
      <Facts
        facts={[
          [t("type"), policy.type],
          [t("defaults"), text(policy, policy.default)],
          [t("bounds"), minimum !== undefined && maximum !== undefined && t("boundsText", { least: number(minimum), most: number(maximum) })],
          [t("values"), policy.values?.join(", ")],
          [t("scopes"), policy.scopes.join(", ")],
          [t("limits"), <Cap cap={policy.cap} />],
          [t("readers"), policy.readers.length === 0 ? t("noReader") : policy.readers.join(", ")],
        ]}
      />
    </section>
  );
}

// Cap is how wider scopes limit narrower ones. That of a newer server is its own text.
function Cap({ cap = "none" }: { cap?: string }) {
  const t = useTranslations("policies.caps");
  const known: Record<string, string> = { max: t("max"), min: t("min"), all: t("all"), none: t("none") };
  return <>{known[cap] ?? cap}</>;
}
