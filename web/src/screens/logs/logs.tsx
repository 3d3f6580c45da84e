import { Button, NativeSelect } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { Failure } from "../../components/system/failure";
import { type Item, type Open, follow } from "./read";

// The page displays so many of the last items.
const most = 2_000;

// Logs is a log as text. It reads after the user requests it, because a node sends lines only while someone reads them.
export function Logs({ sources, open }: { sources: readonly ("agent" | "login" | "kernel" | "helper" | "sshd" | "fabricmanager" | "persistenced" | "system")[]; open: Open }) {
  const t = useTranslations("logs");
  const [source, setSource] = useState<string>(sources[0] ?? "");
  const [reading, setReading] = useState(false);
  const [paused, setPaused] = useState(false);
  const [shown, setShown] = useState<Item[]>([]);
  const [error, setError] = useState<unknown>();
  const all = useRef<Item[]>([]);
  const held = useRef(false);
  held.current = paused;
  useEffect(() => {
    if (!reading) return;
    const stopped = new AbortController();
    let waits = 0;
    const show = () => {
      waits = 0;
      if (!held.current) setShown(all.current);
    };
    // A flood of lines renders the page ten times a second.
    const each = (item: Item) => {
      all.current = [...all.current, item].slice(-most);
      waits ||= window.setTimeout(show, 100);
    };
    follow(open, source, stopped.signal, each)
      .catch(setError)
      .finally(() => {
        if (stopped.signal.aborted) return;
        setShown(all.current);
        setReading(false);
      });
    return () => {
      stopped.abort();
      clearTimeout(waits);
    };
  }, [reading, source, open]);
  const begin = (next: string) => {
    all.current = [];
    setShown([]);
    setError(undefined);
    setPaused(false);
    setSource(next);
  };
  const hold = () => {
    setPaused(!paused);
    setShown(all.current);
  };
  return (
    <section className="panel stack">
      <h2>{t("title")}</h2>
      <div className="row">
        <NativeSelect label={t("source")} value={source} data={sources.map((value) => ({ value, label: t(`sources.${value}`) }))} onChange={({ currentTarget }) => begin(currentTarget.value)} />
        <Button
          variant="default"
          onClick={() => {
            if (!reading) begin(source);
            setReading(!reading);
          }}
        >
          {t(reading ? "stop" : "follow")}
        </Button>
        {reading && (
          <Button variant="default" onClick={hold}>
            {t(paused ? "continue" : "pause")}
          </Button>
        )}
      </div>
      {error !== undefined && <Failure error={error} />}
      {(reading || shown.length > 0) && (
        <pre className="log" tabIndex={0} aria-label={t("lines")}>
          {shown.map((item, n) => (
            <Line key={n} item={item} />
          ))}
        </pre>
      )}
    </section>
  );
}

function Line({ item }: { item: Item }) {
  const t = useTranslations("logs");
  if (item.kind === "line") return <>{`${item.at.replace("T", " ").replace("Z", "")}  ${item.text}\n`}</>;
  return <b>{`${item.kind === "dropped" ? t("dropped", { lines: item.lines }) : t("ended", { reason: t(`reasons.${reasonOf(item.reason)}`) })}\n`}</b>;
}

const reasons = ["complete", "allocation_ended", "right_lost"] as const;
const reasonOf = (reason: string) => reasons.find((known) => known === reason) ?? "lost";
