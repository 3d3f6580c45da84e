import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command, Copy } from "../../components/system/copy";
import { type Fact, Facts } from "../../components/system/facts";
import { Content } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { keys, stale } from "../../query/keys";
import { useRecent } from "../../session/recent";
import { unreported } from "../../stream/unreported";
import { DecideOne } from "./events/decide";

type Props = { letter: Schemas["DeadLetter"] };

export function DeadLetter() {
  const { id } = useParams({ from: "/admin/events/$id" });
  const t = useTranslations("events");
  const query = useQuery({
    queryKey: keys.deadLetter(id),
    queryFn: () => unwrap(api.GET("/api/v1/admin/events/dead-letters/{id}", { params: { path: { id } } })),
    staleTime: stale.list,
    refetchInterval: unreported.letters.every,
  });
  useRecent(query.data?.subject);
  return (
    <div className="stack">
      <Heading title={query.data?.subject ?? t("letter")} />
      <Content query={query}>
        {(letter) => (
          <div className="stack">
            <About letter={letter} />
            <DecideOne letter={letter} />
            <Envelope letter={letter} />
          </div>
        )}
      </Content>
      <Command text={`gpuaas events retry '${id.replaceAll("'", "")}' --reason '…'`} label={t("oneCommand")} />
    </div>
  );
}

function About({ letter }: Props) {
  const t = useTranslations("events");
  const word = useWords();
  const facts: Fact[] = [
    [t("status"), word(letter.status)],
    [t("consumer"), letter.consumer],
    [t("stream"), letter.stream],
    [t("error"), letter.error],
    [t("attempts"), letter.attempts],
    [t("first"), <Time at={letter.created_at} />],
    [t("failed"), <Time at={letter.updated_at} />],
    [t("event"), letter.event_id],
    [t("reason"), letter.reason],
    [t("by"), letter.resolved_by],
    [t("at"), letter.resolved_at && <Time at={letter.resolved_at} />],
    [t("id"), <>{letter.id} <Copy text={letter.id} label={t("copyId")} /></>],
  ];
  return (
    <section className="panel">
      <h2>{t("letter")}</h2>
      <Facts facts={facts} />
    </section>
  );
}

// Envelope is JSON as text, because a tenant can have written a part of it.
function Envelope({ letter: { event } }: Props) {
  const t = useTranslations("events");
  return (
    <section className="panel">
      <h2>{t("envelope")}</h2>
      {event === undefined ? <p>{t("noEnvelope")}</p> : <pre className="scroll" tabIndex={0} role="region" aria-label={t("envelope")}>{JSON.stringify(event, null, 2)}</pre>}
    </section>
  );
}
