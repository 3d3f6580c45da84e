import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";

// History is the way of the declaration to the node: revision, plan, task, observation and drift.
export function History({ part }: { part: Part<Schemas["Trace"]> }) {
  const t = useTranslations("node");
  return (
    <Section title={t("history")} query={part} isEmpty={({ steps }) => steps.length === 0} empty={<Empty text={t("noHistory")} />}>
      {({ steps }) => (
        <ol className="timeline">
          {steps.map(({ stage, occurred_at, state, message, reference = "" }, place) => (
            <li key={place}>
              <p>
                <strong>{stage}</strong> {state} <Time at={occurred_at} />
              </p>
              <p>
                {message} <Reference stage={stage} reference={reference} />
              </p>
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}

// Reference leads to the plan, or to the job in River. Other stages have no page.
function Reference({ stage, reference }: { stage: string; reference: string }) {
  if (reference === "") return null;
  if (stage === "plan") return <Link to="/changes/$id" params={{ id: reference }}>{reference}</Link>;
  if (stage === "job") return <Anchor href={`/admin/river/jobs/${encodeURIComponent(reference)}`}>{reference}</Anchor>;
  return <span className="dim">{reference}</span>;
}
