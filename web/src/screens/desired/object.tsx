import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Facts } from "../../components/system/facts";
import { Reasoned } from "../../components/system/reasoned";
import { Remove } from "../../components/system/remove";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";
import { Origin } from "../admin/policy/origin";
import { Suspend } from "./suspend";

type Props = { kind: Schemas["Kind"]; name: string; scope?: string };

const reasonOf = { least: 3, most: 256 };

// DesiredState is what is declared of an object and by what, with the changes of its control loop.
export function DesiredState({ kind, name, scope }: Props) {
  const t = useTranslations("desired");
  const format = useFormat();
  const key = keys.desired(kind, name, scope);
  const query = useQuery({
    queryKey: key,
    queryFn: () => unwrap(api.GET("/api/v1/admin/desired/{kind}/{name}", { params: { path: { kind, name }, query: { scope } } })),
    refetchInterval: unreported.objects.every,
  });
  return (
    <Section title={t("title")} query={query}>
      {({ metadata: { source, generation, suspended }, status }) => (
        <div className="stack">
          <Facts
            facts={[
              [t("managed"), <Origin source={source} />],
              [t("generation"), format.number(generation)],
              [t("sync"), status?.sync],
              [t("suspended"), suspended && t("suspendedText", suspended)],
              [t("until"), suspended && (suspended.until === undefined ? t("noEnd") : <Time at={suspended.until} />)],
            ]}
          />
          <Controls kind={kind} name={name} scope={scope} suspended={suspended !== undefined} />
        </div>
      )}
    </Section>
  );
}

function Controls({ kind, name, scope, suspended }: Props & { suspended: boolean }) {
  const t = useTranslations("desired");
  const { may } = useSession();
  const invalidates = [keys.desired(kind, name, scope)];
  const params = (key: string) => ({ path: { kind, name }, query: { scope }, header: { "X-Idempotency-Key": key } });
  return (
    <div className="row">
      {may("reconcileDesired") && (
        <Reasoned
          action={t("reconcile")}
          name={name}
          text={t("reconcileText", { name })}
          done={t("isReconciling", { name })}
          {...reasonOf}
          input={() => ({})}
          run={(body, key) => unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/reconcile", { params: params(key), body }))}
          invalidates={invalidates}
        />
      )}
      {!suspended && may("suspendDesired") && (
        <Suspend name={name} text={t("suspendText", { name })} run={(body, key) => unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/suspend", { params: params(key), body }))} invalidates={invalidates} />
      )}
      {suspended && may("resumeDesired") && (
        <Remove
          action={t("resume")}
          name={name}
          text={t("resumeText", { name })}
          done={t("isResumed", { name })}
          typed={false}
          run={(key) => unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/resume", { params: params(key) }))}
          invalidates={invalidates}
        />
      )}
    </div>
  );
}
