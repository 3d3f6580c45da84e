import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";

type Kind = "health" | "hold" | "condition" | "agent";
type Entry = { at: string; kind: Kind; text: string };

// HealthTimeline is what has changed the health and the service of the node, newest first, of the parts of its view.
export function HealthTimeline({ node }: { node: Schemas["Node"] }) {
  const t = useTranslations("service");
  const entries = useEntries(node);
  return (
    <section className="panel">
      <h2>{t("timeline")}</h2>
      {entries.length === 0 ? (
        <Empty text={t("noTimeline")} />
      ) : (
        <ol className="timeline">
          {entries.map(({ at, kind, text }, index) => (
            <li key={index}>
              <p>
                <strong>{t(`entry.${kind}`)}</strong> <Time at={at} />
              </p>
              <p>{text}</p>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function useEntries({ health_reports = [], holds = [], conditions = [], agent_updates = [] }: Schemas["Node"]): Entry[] {
  const t = useTranslations("service");
  const word = useWords();
  const entries: Entry[] = [
    ...health_reports.map(({ started_at: at, check, target, level, message }): Entry => ({ at, kind: "health", text: [check, target, word(level), message].filter(Boolean).join(" · ") })),
    ...holds.map(({ created_at: at, kind, owner, owner_name, reason }): Entry => ({ at, kind: "hold", text: t("holdText", { kind: word(kind), owner: owner_name ?? owner, reason }) })),
    ...conditions.map(({ last_transition_time: at, type, status, message }): Entry => ({ at, kind: "condition", text: t("conditionText", { type, status, message: message ?? "" }) })),
    ...agent_updates.map(({ updated_at: at, version, status, message }): Entry => ({ at, kind: "agent", text: [version, word(status), message].filter(Boolean).join(" · ") })),
  ];
  return entries.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}
