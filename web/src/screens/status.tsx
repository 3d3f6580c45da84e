import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Content, Section } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { type Part, partOf } from "../query/model";
import { unreported } from "../stream/unreported";
import { Free } from "./platform/capacity";
import { Checks, State } from "./platform/checks";

type Health = Schemas["Health"];

export function PlatformStatus() {
  const t = useTranslations("platform");
  const query = useQuery({ queryKey: keys.status, queryFn: () => unwrap(api.GET("/api/v3/platform/status")), staleTime: stale.list, refetchInterval: unreported.health.every });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Content query={query}>
        {({ health, details, capacity }) => (
          <div className="stack">
            <Overall part={partOf(health, query.refetch)} />
            <Free part={partOf(capacity, query.refetch)} />
            {/* The server sends checks to operators only. */}
            {details.status !== "restricted" && <Checks part={partOf(details, query.refetch)} />}
          </div>
        )}
      </Content>
    </div>
  );
}

function Overall({ part }: { part: Part<Health> }) {
  const t = useTranslations("platform");
  return (
    <Section title={t("health")} query={part}>
      {({ status }) => (
        <p className="figure">
          <State status={status} />
        </p>
      )}
    </Section>
  );
}
