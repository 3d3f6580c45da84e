import { useTranslations } from "use-intl";
import type { Schemas } from "../../../api/client";
import { Facts } from "../../../components/system/facts";
import { Time } from "../../../components/system/time";
import { Suggestions } from "../../allocation/why";

// Waits is why a queued request has no slots yet.
export function Waits({ pending }: { pending: Schemas["Pending"] }) {
  const t = useTranslations("adminAllocations");
  const texts = useTranslations("allocation");
  return (
    <section className="panel stack">
      <h2>{t("why")}</h2>
      <p>
        <strong>{pending.message}</strong>
      </p>
      <Facts
        facts={[
          [t("reason"), pending.reason],
          [t("position"), pending.position],
          [t("deadline"), pending.deadline_at && <Time at={pending.deadline_at} />],
        ]}
      />
      {pending.filters.length > 0 && (
        <ul>
          {pending.filters.map(({ filter, nodes }) => (
            <li key={filter}>{texts("excluded", { count: nodes, filter })}</li>
          ))}
        </ul>
      )}
      <Suggestions title={texts("suggestions")} suggestions={pending.suggestions} />
    </section>
  );
}
