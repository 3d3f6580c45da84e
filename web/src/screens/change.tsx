import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content } from "../components/system/section";
import { keys, refetch, stale } from "../query/keys";
import { type Part, partOf } from "../query/model";
import { useRecent } from "../session/recent";
import { Decide } from "./change/decide";
import { Diff } from "./change/diff";
import { Facts } from "./change/facts";
import { Findings } from "./change/findings";
import { Money } from "./change/money";
import { Radius } from "./change/radius";
import { Steps } from "./change/steps";
import { Sources } from "./changes/sources";

export function Change() {
  const { id } = useParams({ from: "/changes/$id" });
  const t = useTranslations("change");
  const query = useQuery({
    queryKey: keys.change(id),
    queryFn: () => unwrap(api.GET("/api/v3/platform/changes/{id}", { params: { path: { id } } })),
    staleTime: stale.list,
    refetchInterval: refetch.live,
  });
  useRecent(query.data?.plan.data && t("title", { id: id.slice(-12) }));
  return (
    <div className="stack">
      <Heading title={t("title", { id: id.slice(-12) })} />
      <Content query={query}>
        {({ plan, sources }) => (
          <div className="stack">
            <Content query={partOf(plan, query.refetch)}>{(value) => <Plan plan={value} sources={sources.data?.items ?? []} />}</Content>
            <SourcesOf part={partOf(sources, query.refetch)} name={plan.data?.source} />
          </div>
        )}
      </Content>
    </div>
  );
}

type PlanProps = { plan: Schemas["PlanDetail"]; sources: Schemas["GitSource"][] };

function Plan({ plan, sources }: PlanProps) {
  const t = useTranslations("change");
  const { change, id } = plan;
  const source = sources.find(({ name }) => name === (change?.source ?? plan.source));
  return (
    <div className="stack">
      <Facts plan={plan} />
      <Decide plan={plan} />
      {change !== undefined && (
        <>
          <Radius radius={change.blast_radius} reasons={change.approval_reasons} />
          <Money money={change.money} />
          <Findings findings={change.findings} commit={change.commit} source={source} />
          <Diff steps={change.steps} commit={change.commit} source={source} />
        </>
      )}
      {(change === undefined || plan.steps.length > 0) && <Steps steps={plan.steps} />}
      <Command text={`gpuaas describe plan ${id}`} label={t("command")} />
    </div>
  );
}

// SourcesOf shows the Git source of the plan. A plan of the API or of the control loop has none.
function SourcesOf({ part, name }: { part: Part<Schemas["GitSourceList"]>; name: string | undefined }) {
  if (part.data === undefined) return <Sources part={part} />;
  const items = part.data.items.filter((source) => source.name === name);
  return items.length === 0 ? null : <Sources part={{ ...part, data: { items } }} />;
}
